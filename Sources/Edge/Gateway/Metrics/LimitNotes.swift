import Reactor

/// Clients that a limit has stopped, since it was asked last.
package struct LimitNote: Sendable, Equatable {
    /// What became of them.
    package enum Kind: String, Sendable {
        /// Not let in.
        case refused
        /// Let in, and closed or refused a request for what they did, or left undone.
        case stopped
        /// Closed for what the hub held for them.
        case overload
    }

    package let kind: Kind
    /// The setting's name.
    package let limit: String
    /// Whether that is how clients come and go: they lose their network, or open connections to be ready.
    package let isRoutine: Bool
    /// How many they are.
    package fileprivate(set) var count = 0
    /// The address of the latest.
    package fileprivate(set) var address = PeerAddress.unix
}

/// What the log will say of clients whom limits have stopped.
///
/// Loops note them, and whoever writes the log takes the notes now and then: a flood makes no more lines than one client does,
/// and no loop waits for a log. No more notes than there are limits. Its lock is held for moves, and taken where a client is
/// stopped alone.
final class LimitNotes: Sendable {
    private let notes = Locked<[String: LimitNote]>([:])

    func add(_ kind: LimitNote.Kind, _ limit: String, isRoutine: Bool = false, _ address: PeerAddress) {
        notes.withLock { notes in
            var note = notes[limit] ?? LimitNote(kind: kind, limit: limit, isRoutine: isRoutine)
            note.count += 1
            note.address = address
            notes[limit] = note
        }
    }

    /// All of them, by name; none are left.
    func take() -> [LimitNote] {
        notes.withLock { exchange(&$0, with: [:]) }.values.sorted { $0.limit < $1.limit }
    }
}

extension ConnectionCensus.Refusal {
    /// The setting.
    var limit: String {
        switch self {
        case .hubFull: "limits.connections"
        case .addressFull: "limits.connectionsPerAddress"
        case .addressFast: "limits.connectsPerSecond"
        }
    }
}

/// What the hub held for a client when it closed the connection.
enum Overload: String, CaseIterable {
    case sendQueue = "send_queue_full"
    case sendQueues = "send_queues_full"
    case stalled
    case unfinished = "unfinished_full"

    /// The setting.
    var limit: String {
        switch self {
        case .sendQueue: "limits.sendQueueBytes"
        case .sendQueues: "limits.sendQueuesBytes"
        case .stalled: "limits.stalledTimeout"
        case .unfinished: "limits.unfinishedBytes"
        }
    }
}
