import RESP

/// How a command that was taken has ended.
package enum RedisReply: Equatable, Sendable {
    /// The server's answer; of `subscribe` the last push that it led to. Never an error.
    case value(RESPValue)
    /// The server refused it.
    case refused(RESPError)
    /// The connection ended before the answer: it may have been carried out, or not.
    case lost
}

/// What became of a command that was to be sent.
package enum RedisSending: Equatable, Sendable {
    /// It is on its way; its handler is called once, later.
    case taken
    /// A bound is reached (`RedisSettings`): nothing is kept, and its handler is not called.
    case full
    /// There is no connection: nothing is kept, and its handler is not called.
    case away
}
