import Pusher

/// An endpoint with what waits for it. Of the courier's thread.
final class Endpoint {
    let appID: String
    /// As the configuration has it now; the URL stays.
    var configuration: WebhookEndpoint
    var credentials: AppCredentials
    /// Whether no event is to wait for it any more: it has left the configuration.
    var isRemoved = false
    /// Events and their bytes in all lines, those of requests under way included.
    var events = 0
    var bytes = 0
    /// Lines whose last request failed.
    var troubledLines = 0
    private(set) var lines: [DeliveryLine] = []

    init(_ appID: String, _ credentials: AppCredentials, _ configuration: WebhookEndpoint, lines: Int) {
        self.appID = appID
        self.credentials = credentials
        self.configuration = configuration
        self.lines = (0..<max(1, lines)).map { _ in DeliveryLine(self) }
    }

    /// The line of a channel, always the same.
    func line(of channel: ChannelName) -> DeliveryLine {
        // FNV-1a: alike in every run, so that a test's seed makes the same history again.
        var code: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in channel.string.utf8 { code = (code ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return lines[Int(code % UInt64(lines.count))]
    }
}
