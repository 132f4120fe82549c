/// A value that Redis or Valkey sends (RESP3, "Redis serialization protocol specification").
package enum RESPValue: Equatable, Sendable {
    /// A simple, bulk or verbatim string, without the format of the latter; a big number as its digits.
    case bytes([UInt8])
    case integer(Int64)
    case double(Double)
    case boolean(Bool)
    /// Also the null strings and arrays of RESP2, which a server sends before `HELLO 3`.
    case null
    /// An array, or a set.
    case array([RESPValue])
    /// Keys and values in turn.
    case map([RESPValue])
    /// Nobody has asked for it: a message of a channel, or what a `SUBSCRIBE` leads to.
    case push([RESPValue])
    case error(RESPError)
}

/// An error that Redis or Valkey sends.
package struct RESPError: Equatable, Sendable {
    /// As it was sent. It may repeat arguments of the command, and so does not belong in logs.
    package let message: [UInt8]

    /// An error with that message.
    package init(_ message: [UInt8]) { self.message = message }

    /// Its first word if that is in capitals, as in `NOSCRIPT` or `WRONGTYPE`, and at most 24 bytes long; otherwise empty.
    /// This may be logged.
    package var code: String {
        let word = message.prefix { $0 >= UInt8(ascii: "A") && $0 <= UInt8(ascii: "Z") }
        let isWhole = word.count == message.count || message[word.count] == UInt8(ascii: " ")
        return isWhole && word.count <= 24 ? String(decoding: word, as: UTF8.self) : ""
    }
}

/// Why bytes are not RESP3. Values behind them cannot be told apart: the connection is of no more use.
package enum RESPProblem: Error, Sendable {
    /// No server sends this, or a push within another value, or a string of unknown length.
    case malformed
    /// A value is longer than the parser allows.
    case tooLong
    /// Values within values, more than `RESPParser.depthMax`.
    case tooDeep
}
