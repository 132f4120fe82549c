/// What comes to a hub by its control socket: lines of words.
enum ControlRequest: Equatable {
    /// A successor wants the sockets, in this version of these messages.
    case takeOver(version: Int)
    /// The successor accepts connections.
    case ready
    case drain, cancel

    /// The version of the messages between two hubs.
    static let version = 1
    static let bytesMax = 64

    /// Nil for other lines.
    init?(_ line: String) {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        switch (words.first, words.count) {
        case ("take-over", 2):
            guard let version = Int(words[1]) else { return nil }
            self = .takeOver(version: version)
        case ("ready", 1): self = .ready
        case ("drain", 1): self = .drain
        case ("cancel", 1): self = .cancel
        default: return nil
        }
    }

    var line: String {
        switch self {
        case .takeOver(let version): "take-over \(version)\n"
        case .ready: "ready\n"
        case .drain: "drain\n"
        case .cancel: "cancel\n"
        }
    }
}

/// What a hub says by its control socket.
enum ControlAnswer: Equatable {
    /// With the sockets, in this order, as descriptors.
    case sockets([String])
    /// The old hub accepts no more.
    case relieved
    /// Not now: ask again.
    case later(String)
    case refused(String)
    case draining, drained, cancelled
    /// Connections that a drain has still to close.
    case left(Int)

    static let bytesMax = 1_024

    /// Nil for other lines.
    init?(_ line: String) {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        let rest = words.count > 1 ? words[1] : ""
        switch words.first {
        case "sockets": self = .sockets(rest.split(separator: " ").map(String.init))
        case "relieved": self = .relieved
        case "later": self = .later(rest)
        case "refused": self = .refused(rest)
        case "draining": self = .draining
        case "drained": self = .drained
        case "cancelled": self = .cancelled
        case "left":
            guard let count = Int(rest) else { return nil }
            self = .left(count)
        default: return nil
        }
    }

    var line: String {
        switch self {
        case .sockets(let names): "sockets \(names.joined(separator: " "))\n"
        case .relieved: "relieved\n"
        case .later(let reason): "later \(reason)\n"
        case .refused(let reason): "refused \(reason)\n"
        case .draining: "draining\n"
        case .drained: "drained\n"
        case .cancelled: "cancelled\n"
        case .left(let count): "left \(count)\n"
        }
    }
}

/// Lines out of bytes that come in pieces.
struct LineBuffer {
    private var bytes: [UInt8] = []
    private let bytesMax: Int

    /// - Parameter bytesMax: of one line. A longer one is given up: see `append`.
    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// Adds what has come. False when a line is too long, or no text.
    mutating func append(_ more: [UInt8]) -> Bool {
        bytes += more
        return bytes.count <= bytesMax && bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F || $0 == 0x0A }
    }

    /// The next whole line, without its end.
    mutating func next() -> String? {
        guard let end = bytes.firstIndex(of: 0x0A) else { return nil }
        defer { bytes.removeSubrange(...end) }
        return String(decoding: bytes[..<end], as: UTF8.self)
    }
}
