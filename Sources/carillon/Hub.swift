import Logging

/// The running hub, as the commands `serve` and `dev` start it.
enum Hub {
    /// Serves clients until `stop` is set, then closes what is open and returns.
    ///
    /// Blocks the calling thread, which is the main thread, for as long as the hub runs.
    ///
    /// - Parameters:
    ///   - stop: set when the hub shall end; its descriptor may be watched beside others.
    ///   - onReady: called once, when clients may connect, with the address in use (the port, where 0 was asked for).
    /// - Throws: a `Failure` of one clear line when the hub cannot start, such as a taken port.
    static func run(
        settings: Settings, logger: Logger, stop: Latch, onReady: (ListenAddress) throws -> Void
    ) throws {
        try onReady(settings.listen)
        stop.wait()
    }
}
