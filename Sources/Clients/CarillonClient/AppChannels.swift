/// Channels of the app's own, with those who listen.
struct AppChannels {
    private var listeners: [String: [Int: AsyncStream<CarillonMessage>.Continuation]] = [:]
    private var serial = 0

    /// Adds a listener; `ended` is called with its number when it has gone.
    mutating func add(
        _ channel: String, _ ended: @escaping @Sendable (Int) -> Void
    ) -> AsyncStream<CarillonMessage> {
        let (stream, listener) = AsyncStream<CarillonMessage>.makeStream(bufferingPolicy: .bufferingNewest(1000))
        serial += 1
        listeners[channel, default: [:]][serial] = listener
        listener.onTermination = { [serial] _ in ended(serial) }
        return stream
    }

    /// A listener has ended. Returns whether nobody listens to the channel any more.
    mutating func remove(_ channel: String, _ serial: Int) -> Bool {
        listeners[channel]?[serial] = nil
        guard listeners[channel]?.isEmpty == true else { return false }
        listeners[channel] = nil
        return true
    }

    func tell(_ channel: String, _ message: CarillonMessage) {
        for listener in listeners[channel, default: [:]].values { listener.yield(message) }
    }

    func finish() {
        for channel in listeners.values { for listener in channel.values { listener.finish() } }
    }
}
