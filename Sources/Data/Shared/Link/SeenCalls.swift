import HubEngine
import Metrics
import Pusher
import RESP
import Redis

/// A signed call, as hubs share which they have seen.
package struct SeenCall: Sendable {
    fileprivate let app: String
    fileprivate let mark: [UInt8]
    let timestamp: Int64

    /// A call of the app's backend.
    package init(_ call: SignedCall, of app: App) {
        self.init(app: app.id, mark: call.mark.bytes, timestamp: call.timestamp)
    }

    /// - Parameter mark: 8 bytes or more, equal for equal calls only.
    init(app: String, mark: [UInt8], timestamp: Int64) {
        (self.app, self.mark, self.timestamp) = (app, mark, timestamp)
    }

    fileprivate func command(_ asked: String, from hub: HubID) -> SharedCommand {
        var command = SharedCommand(.key, nil, from: hub, asked, app, "\(timestamp)")
        command.add(mark)
        return command
    }

    fileprivate func bucket(of count: Int) -> Int {
        Int(mark.prefix(8).reduce(0 as UInt64) { $0 << 8 | UInt64($1) } % UInt64(count))
    }
}

/// Whether a call was seen.
package enum SeenVerdict: Sendable, Equatable {
    /// By no hub; from now on it was.
    case new
    /// By one of the hubs.
    case seen
    /// It is older than what is remembered.
    case early
    /// The app's calls of that minute are too many to be remembered.
    case full
    /// Nobody knows.
    case unavailable

    init(_ reply: RedisReply) {
        guard case .value(.bytes(let word)) = reply else {
            self = .unavailable
            return
        }
        self =
            switch String(decoding: word, as: UTF8.self) {
            case "new": .new
            case "seen": .seen
            case "early": .early
            case "full": .full
            default: .unavailable
            }
    }
}

// Any thread: the first loop's link asks.
extension SharedRedis {
    /// Whether the call was seen before. `done` is called once, on any thread.
    package func see(_ call: SeenCall, _ done: @escaping @Sendable (SeenVerdict) -> Void) {
        ask(call, "see") { done(SeenVerdict($0)) }
    }

    /// It had no effect, and may come again.
    package func forget(_ call: SeenCall) {
        ask(call, "forget") { _ in }
    }

    private func ask(_ call: SeenCall, _ asked: String, _ done: @escaping @Sendable (RedisReply) -> Void) {
        let bucket = call.bucket(of: keys.count)
        perform { link in
            guard let link else { return done(.lost) }
            Self.ask(link, bucket, { call.command(asked, from: $0) }, done)
        }
    }

    /// Asks the script, as the hub that the link is now.
    static func ask(
        _ link: RedisLink, _ bucket: Int, _ command: (HubID) -> SharedCommand, _ done: @escaping (RedisReply) -> Void
    ) {
        let sender = link.hub
        link.evaluate(command(sender), bucket) { [weak link] reply in
            if case .refused(let error) = reply { link?.failed(error, as: sender) }
            done(reply)
        }
    }
}
