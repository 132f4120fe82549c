/// When pusher-js 8 connects again after a connection has ended.
enum Comeback: Equatable {
    case after(Duration)
    case never

    /// The time that it gives each attempt: one that fails earlier is not repeated before.
    static let attempt = Duration.seconds(15)

    /// How long the wire page's client waits before it asks again for what the hub could not read.
    ///
    /// - Parameter random: from 0 to 1.
    static func pause(random: Double) -> Duration { .milliseconds(1_000 + 4_000 * random) }

    /// - Parameters:
    ///   - wasOpen: whether it was a WebSocket; otherwise the attempt was refused, or failed.
    ///   - code: of the close frame; nil where none came.
    ///   - elapsed: since the attempt began.
    init(wasOpen: Bool, code: UInt16?, elapsed: Duration) {
        guard wasOpen else {
            self = .after(max(.zero, Self.attempt - elapsed))
            return
        }
        switch code ?? 1006 {
        case 4000..<4100, 4300...: self = .never
        case 4200..<4300: self = .after(.zero)
        default: self = .after(.seconds(1))
        }
    }
}
