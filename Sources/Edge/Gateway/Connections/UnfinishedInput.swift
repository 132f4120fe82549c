import Clock
import Reactor
import WebSocket

/// What a connection holds of a request or a message that has come in part. Few have one at a time: it is made when a read
/// leaves something, and goes when all of it is consumed.
final class UnfinishedInput {
    /// Bytes read and not consumed: the beginning of a request or of a frame's header, or what came before a pause.
    var leftover: [UInt8] = []
    /// Within a frame or a message; at rest otherwise.
    var reader = MessageReader(role: .server)
    /// When the unfinished message began; `never` where there is none.
    var messageSince = Connection.never

    /// Bytes held; the arrays, which grow in steps, may have room for as many again.
    var bytes: Int { leftover.count &+ reader.heldBytes }
    /// Whether nothing is held.
    var isFinished: Bool { leftover.isEmpty && !reader.holdsMessage }
}

extension Connection {
    var leftover: [UInt8] {
        get { unfinished?.leftover ?? [] }
        set { if unfinished != nil || !newValue.isEmpty { heldInput().leftover = newValue } }
    }

    /// When the unfinished message began; `never` where there is none.
    var messageSince: Instant {
        get { unfinished?.messageSince ?? Self.never }
        set { if unfinished != nil || newValue != Self.never { heldInput().messageSince = newValue } }
    }

    /// The reader where the last read left it, taken out.
    func takeReader() -> MessageReader {
        let rested = MessageReader(role: .server)
        guard let unfinished else { return rested }
        return exchange(&unfinished.reader, with: rested)
    }

    /// Keeps the reader for the next read, where it is within a message.
    func keep(_ reader: MessageReader) {
        if reader.holdsMessage { heldInput().reader = reader }
    }

    private func heldInput() -> UnfinishedInput {
        if let unfinished { return unfinished }
        let made = UnfinishedInput()
        unfinished = made
        return made
    }
}
