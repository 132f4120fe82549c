/// The bounds of this target.
package enum PostgresLimits {
    /// Statements that may wait on one connection; one more is refused.
    package static let waitingStatementsMax = 64
    /// Statements that may be in flight on one connection.
    package static let pipelineDepthMax = 64
    /// Parameters of one statement. PostgreSQL's own limit is 65,535.
    package static let parametersMax = 64
    /// Bytes of libpq's message kept in a `connecting` error.
    package static let messageBytesMax = 300
    /// A connection whose oldest statement has been executing this long gets no more requests.
    static let patience = Duration.milliseconds(100)
    /// Users remembered as suspects; beyond them no further user is held.
    static let suspectsMax = 10_000
    /// The longest time a user is held.
    static let holdMax = Duration.seconds(5)
    /// How long a user is remembered after the hold.
    package static let suspicionLasts = Duration.seconds(30)
    /// Leases that may wait for a connection; one more is lost at once.
    static let leasesWaitingMax = 64
    /// Faults that a log remembers; one more makes it forget them all.
    package static let faultsMax = 100
}
