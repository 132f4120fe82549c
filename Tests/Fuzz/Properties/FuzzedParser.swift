// FuzzProperties: what must hold of the parsers of layer 1, whatever bytes come.
//
// Purpose: libFuzzer (`Tests/Fuzz/run`) looks for inputs that break a property; ordinary tests hold the same functions
// against every file of `Tests/Corpus`, crashers that were found among them. Invariants: deterministic, so that a file
// always tells the same; splits and keys are drawn from the input itself. No input may trap, nor be read beyond its end:
// the sanitizers watch, for bytes are handed over in memory of exactly their size.

import WebSocket

/// What takes long to be made, made when it is needed first.
package final class FuzzTools {
    private(set) lazy var inflater = Inflater()
    private(set) lazy var deflater = FrameDeflater(threshold: 0, level: 1)

    package init() {}
}

/// A property that does not hold.
package struct Violation: Error {
    /// What was found, in a line for the developer.
    package let message: String
}

/// The parsers that are fuzzed. The raw value is the name of the folder below `Tests/Corpus`.
package enum FuzzedParser: String, CaseIterable, Sendable {
    case action
    case call
    case form
    case handshake
    case httpRequest = "http-request"
    case httpResponse = "http-response"
    case inflate
    case json
    case publish
    case pusher
    case resp
    case shared
    case streamName = "stream-name"
    case websocket

    /// Holds the parser's properties against `bytes`; `tools` may serve many inputs, one after the other.
    package func check(_ bytes: [UInt8], _ tools: FuzzTools = FuzzTools()) throws(Violation) {
        switch self {
        case .action: try ActionProperties.check(bytes)
        case .call: try CallProperties.check(bytes)
        case .form: try FormProperties.check(bytes)
        case .handshake: try HandshakeProperties.check(bytes)
        case .httpRequest: try RequestProperties.check(bytes)
        case .httpResponse: try ResponseProperties.check(bytes)
        case .inflate: try InflateProperties.check(bytes, tools)
        case .json: try JSONProperties.check(bytes)
        case .publish: try PublishProperties.check(bytes)
        case .pusher: try PusherProperties.check(bytes)
        case .resp: try RESPProperties.check(bytes)
        case .shared: try SharedProperties.check(bytes)
        case .streamName: try StreamNameProperties.check(bytes)
        case .websocket: try WebSocketProperties.check(bytes, tools)
        }
    }
}

/// Fails with `what` unless `condition` holds.
func hold(_ condition: Bool, _ what: @autoclosure () -> String) throws(Violation) {
    guard condition else { throw Violation(message: what()) }
}

/// The value, or a failure with `what` where there is none.
func need<Value>(_ value: Value?, _ what: @autoclosure () -> String) throws(Violation) -> Value {
    guard let value else { throw Violation(message: what()) }
    return value
}

/// What `body` returns, or the error that it throws, which must not be: `what` says why.
func succeed<Value, Failure: Error>(
    _ what: @autoclosure () -> String, _ body: () throws(Failure) -> Value
) throws(Violation) -> Value {
    do throws(Failure) {
        return try body()
    } catch {
        throw Violation(message: "\(what()): \(error)")
    }
}
