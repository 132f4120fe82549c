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
}
