import Bytes
import Clock

/// Calls to a state elsewhere whose replies have not come. None waits longer than `patience`.
struct ChannelWaits {
    /// What for.
    enum Wait {
        /// A session to be let in.
        case entry(Newcomer)
        /// Nobody, but if the reply is lost, what is true here is asserted.
        case silent(ChannelKey)
        /// An assertion.
        case assertion(ChannelKey)
        /// An assertion that nobody here is in the channel.
        case vacancy(ChannelKey)
        /// To look again, or to assert again what could not be asserted.
        case pause(ChannelKey)
        /// Somebody who has asked (`ChannelShard.ask`).
        case question
    }

    private struct Deadline {
        let number: UInt64
        let due: Instant
    }

    /// How long a reply may take.
    static let patience = Duration.seconds(5)
    /// Until what failed is asked again: an assertion, or an entry.
    static let pause = Duration.seconds(1)
    /// How long a session is asked for again; `pause` and `patience` may come to that. pusher-js never repeats a subscribe
    /// that was refused, and a failover of Redis takes five to eight seconds.
    static let entryPatience = Duration.seconds(30)

    private(set) var lastNumber: UInt64 = 0
    private var waits: [UInt64: Wait] = [:]
    private var deadlines = Fifo<Deadline>()
    /// Those of pauses, which are shorter.
    private var pauses = Fifo<Deadline>()

    /// When the first of them has waited for too long.
    var nextDue: Instant? {
        let due = min(deadlines.first?.due ?? .max, pauses.first?.due ?? .max)
        return due == .max ? nil : due
    }

    mutating func next() -> UInt64 {
        lastNumber &+= 1
        return lastNumber
    }

    mutating func add(_ wait: Wait, _ number: UInt64, due: Instant) {
        waits[number] = wait
        if case .pause = wait {
            pauses.append(Deadline(number: number, due: due))
        } else {
            deadlines.append(Deadline(number: number, due: due))
        }
        if deadlines.needsSweep(live: waits.count, slack: 64) {
            let waits = waits
            deadlines.sweep { waits[$0.number] != nil }
        }
    }

    /// What the reply of that number is for; nil if it was there before, or came too late.
    mutating func take(_ number: UInt64) -> Wait? { waits.removeValue(forKey: number) }

    /// One that has waited for too long.
    mutating func popDue(now: Instant) -> UInt64? {
        while let number = Self.popDue(&deadlines, now) ?? Self.popDue(&pauses, now) {
            if waits[number] != nil { return number }
        }
        return nil
    }

    private static func popDue(_ deadlines: inout Fifo<Deadline>, _ now: Instant) -> UInt64? {
        guard let first = deadlines.first, first.due <= now else { return nil }
        deadlines.popFirst()
        return first.number
    }
}
