import Clock
import HubEngine

/// A call as a script takes it: `ChannelCommand.swift` has those about channels, `UserCommand.swift` those about users.
package struct SharedCommand: Sendable, Equatable {
    /// The script that carries it out.
    package let script: SharedScript
    /// Where that lies which it is about; nil: it is for each bucket.
    package let bucket: ChannelBucket?
    /// Whether it changes the state. The caller's number counts those.
    package let changes: Bool
    /// What the script takes: `ARGV`.
    package internal(set) var arguments: [[UInt8]]
    /// The time, for scripts that are given it.
    package var time: Instant? {
        didSet { if let time { arguments[3] = Array("\(time.nanoseconds / 1_000_000)".utf8) } }
    }

    /// - Parameters:
    ///   - caller: who numbers the calls: a hub has several.
    ///   - words: what the script itself takes.
    init(
        _ script: SharedScript, _ bucket: ChannelBucket?, from hub: HubID, caller: Int = 0, number: UInt64 = 0,
        changes: Bool = false, _ words: String...
    ) {
        (self.script, self.bucket, self.changes) = (script, bucket, changes)
        let head = ["\(hub.number)", "\(hub.number).\(caller)", "\(number)", "", ""]
        arguments = (head + words).map { Array($0.utf8) }
    }

    mutating func add(_ words: String...) {
        for word in words { arguments.append(Array(word.utf8)) }
    }

    /// The number of the caller's last call that changed the bucket; nil: whatever it was.
    package mutating func follows(_ number: UInt64?) {
        arguments[4] = number.map { Array("\($0)".utf8) } ?? []
    }

    /// The command in which a server is asked.
    ///
    /// - Parameters:
    ///   - hash: of the script, as the server has said.
    ///   - prefix: of the bucket's keys.
    package func evaluated(_ hash: [UInt8], _ prefix: [UInt8]) -> [[UInt8]] {
        [Array("EVALSHA".utf8), hash, [UInt8(ascii: "1")], prefix] + arguments
    }
}
