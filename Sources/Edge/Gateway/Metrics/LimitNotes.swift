import Reactor

/// Clients that one limit has stopped since the last take.
package struct LimitNote: Sendable, Equatable {
    /// What happened to them.
    package enum Kind: String, Sendable {
        /// Not let in.
        case refused
        /// Let in, and closed or refused a request for what they did or failed to do.
        case stopped
        /// Closed for what the hub held for them.
        case overload
    }

    /// What happened to them.
    package let kind: Kind
    /// The setting's name.
    package let limit: String
    /// Whether this is ordinary coming and going: clients lose their network, or open connections in advance.
    package let isRoutine: Bool
    /// Clients stopped.
    package fileprivate(set) var count = 0
    /// The address of the latest.
    package fileprivate(set) var address = PeerAddress.unix
}

/// What the log will say of clients that limits have stopped.
///
/// Loops add notes, and the log's writer takes them now and then. So a flood makes no more lines than one client does, and
/// no loop waits for a log. At most one note for each limit. The lock is held only for moves, where a client is stopped.
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

    /// Returns all notes by name, and clears them.
    func take() -> [LimitNote] {
        notes.withLock { exchange(&$0, with: [:]) }.values.sorted { $0.limit < $1.limit }
    }
}

extension AdmissionControl.Refusal {
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

    var limit: String {
        switch self {
        case .sendQueue: "limits.sendQueueBytes"
        case .sendQueues: "limits.sendQueuesBytes"
        case .stalled: "limits.stalledTimeout"
        case .unfinished: "limits.unfinishedBytes"
        }
    }
}
