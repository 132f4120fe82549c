import Bytes
import Clock
import HubEngine
import RESP

/// A call as a script takes it: `ChannelCommand.swift` has those about channels, `UserCommand.swift` those about users.
package struct SharedCommand: Sendable, Equatable {
    /// The script that carries it out.
    package let script: SharedScript
    /// Where that lies which it is about; nil: it is for each bucket.
    package let bucket: ChannelBucket?
    /// Whether it changes the state. The caller's number counts those.
    package let changes: Bool
    /// The time, for scripts that are given it.
    package var time: Instant?
    private let hub: HubID
    private let caller: Int
    private let number: UInt64
    /// The number of the caller's last call that changed the bucket; nil: whatever it was.
    private var previous: UInt64?
    /// What the script itself takes.
    private var words = CommandWords()

    /// - Parameters:
    ///   - caller: who numbers the calls: a hub has several.
    ///   - words: what the script itself takes.
    init(
        _ script: SharedScript, _ bucket: ChannelBucket?, from hub: HubID, caller: Int = 0, number: UInt64 = 0,
        changes: Bool = false, _ words: String...
    ) {
        (self.script, self.bucket, self.changes) = (script, bucket, changes)
        (self.hub, self.caller, self.number) = (hub, caller, number)
        for word in words { self.words.add(word) }
    }

    /// Another question about what `call` is about, with some of its words.
    init(_ asked: String, like call: SharedCommand, words range: Range<Int>) {
        self.init(call.script, call.bucket, from: call.hub, caller: call.caller, number: call.number, asked)
        time = call.time
        words.add(range, of: call.words)
    }

    mutating func add(_ words: String...) {
        for word in words { self.words.add(word) }
    }

    mutating func add(_ word: [UInt8]) { words.add(word) }

    /// The number of the caller's last call that changed the bucket; nil: whatever it was.
    package mutating func follows(_ number: UInt64?) { previous = number }

    /// Writes the command in which a server is asked (Redis docs, EVALSHA).
    ///
    /// - Parameters:
    ///   - hash: of the script, as the server has said.
    ///   - prefix: of the bucket's keys.
    package func write(_ hash: [UInt8], _ prefix: [UInt8], to writer: inout ByteWriter) {
        writer.append("*")
        writer.append(decimal: 9 + words.count)
        writer.append("\r\n$7\r\nEVALSHA\r\n")
        writer.append(bulk: hash)
        writer.append("$1\r\n1\r\n")
        writer.append(bulk: prefix)
        writer.append(bulk: hub.number)
        writer.append(bulk: hub.number, caller: caller)
        writer.append(bulk: number)
        if let time { writer.append(bulk: time.nanoseconds / 1_000_000) } else { writer.append(bulk: []) }
        if let previous { writer.append(bulk: previous) } else { writer.append(bulk: []) }
        writer.append(words.bytes)
    }
}
