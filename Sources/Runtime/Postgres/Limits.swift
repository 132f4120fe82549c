/// The bounds of this target, in one place.
package enum PostgresLimits {
    /// Statements that may wait for their turn on one connection; one more is refused.
    package static let waitingStatementsMax = 64
    /// Statements that may be in flight on one connection.
    package static let pipelineDepthMax = 64
    /// Parameters of one statement. PostgreSQL's own limit is 65,535.
    package static let parametersMax = 64
    /// Addresses of one host's name that are tried.
    package static let addressesMax = 32
    /// Bytes of libpq's message that an error about connecting keeps.
    package static let messageBytesMax = 300
    /// A connection whose oldest statement has been executed for so long gets nothing more behind it.
    static let patience = Duration.milliseconds(100)
    /// Users remembered whose request met a lock or a failure; beyond them such users are not held.
    static let suspectsMax = 10_000
    /// The longest time that a user is held.
    static let holdMax = Duration.seconds(5)
    /// How long after that a user is remembered.
    package static let suspicionLasts = Duration.seconds(30)
    /// Those who wait for a connection of their own; one more has none.
    static let leasesWaitingMax = 64
}
