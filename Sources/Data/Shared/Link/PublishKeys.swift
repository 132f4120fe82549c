import Bytes
import Clock
import Digests
import HubEngine
import Metrics
import RESP
import Reactor
import Redis

/// A publish under an `Idempotency-Key`, as hubs share it.
package struct PublishKey: Sendable {
    let app: String
    let key: String
    let call: String
    /// Who carries it out: another attempt has another.
    let ticket = String(UInt64.random(in: .min ... .max), radix: 36)
    /// The id of its first event; the others follow. Of the same call under the same key it is the same.
    package let once: UInt64
    fileprivate let place: UInt64

    /// - Parameters:
    ///   - key: as the backend has sent it.
    ///   - call: all else that it has sent, apart from its signature.
    package init(_ key: [UInt8], of app: App, call: [UInt8]) {
        func digest(_ parts: [UInt8]...) -> SHA256Digest {
            var hash = SHA256()
            for part in parts { hash.update(counted: part) }
            return hash.finish()
        }
        self.app = app.id
        let name = digest(Array(app.id.utf8), key)
        self.key = String(name.hex.prefix(32))
        self.call = call.withUnsafeBytes { Hex.encode($0) }
        place = name.withUnsafeBytes { $0.load(fromByteOffset: 16, as: UInt64.self) }
        once = digest(Array(app.id.utf8), key, call).withUnsafeBytes { $0.load(as: UInt64.self) }
    }

    fileprivate func command(_ asked: String, _ more: [UInt8], from hub: HubID) -> SharedCommand {
        var command = SharedCommand(.key, nil, from: hub, asked, app, key, ticket)
        command.add(more)
        return command
    }

    fileprivate func bucket(of count: Int) -> Int { Int(place % UInt64(count)) }
}

/// What is known of a publish under its key.
package enum PublishKeyVerdict: Sendable, Equatable {
    /// It is to be carried out, and then settled.
    case new
    /// It was carried out, with this answer.
    case kept([UInt8])
    /// Another one carries it out.
    case underWay
    /// The key came with another call.
    case otherCall
    /// Too many others are under way.
    case full
    /// Nobody knows.
    case unavailable

    init(_ reply: RedisReply) {
        guard case .value(.array(let parts)) = reply, case .bytes(let word)? = parts.first else {
            self = .unavailable
            return
        }
        switch String(decoding: word, as: UTF8.self) {
        case "new": self = .new
        case "underWay": self = .underWay
        case "other": self = .otherCall
        case "full": self = .full
        case "kept":
            if parts.count == 2, case .bytes(let answer) = parts[1] {
                self = .kept(answer)
            } else {
                self = .unavailable
            }
        default: self = .unavailable
        }
    }
}

// Any thread: the first loop's link asks.
//
// Worst interleaving: a reply is lost, or what a publish came to does not reach Redis. Then the key would be under way for
// nobody. So that is said until it has arrived, or is of no use any more (`whatAPublishCameToArrives`).
extension SharedRedis {
    /// How long it is tried to say what a publish has come to. A key that is under way is another's after ten seconds.
    private static let patience = Duration.seconds(60)

    /// Whether the publish is to be carried out. `done` is called once, on any thread.
    package func begin(_ key: PublishKey, _ done: @escaping @Sendable (PublishKeyVerdict) -> Void) {
        let bucket = key.bucket(of: keys.count)
        perform { link in
            guard let link else { return done(.unavailable) }
            Self.ask(link, bucket) {
                key.command("begin", Array(key.call.utf8), from: $0)
            } _: { [weak link] reply in
                let verdict = PublishKeyVerdict(reply)
                if verdict == .unavailable {
                    // It may have begun.
                    if case .lost = reply { link.map { Self.say(key, nil, on: $0, until: Self.end) {} } }
                }
                done(verdict)
            }
        }
    }

    /// It was carried out, with this answer; nil: it was not, or nobody knows, and another attempt may go on. `done` is
    /// called once, on any thread, after the first attempt to say so.
    package func settle(_ key: PublishKey, _ answer: [UInt8]?, _ done: @escaping @Sendable () -> Void) {
        perform { link in
            guard let link else { return done() }
            Self.say(key, answer, on: link, until: Self.end, done)
        }
    }

    private static var end: Instant { .read().advanced(by: patience) }

    private static func say(
        _ key: PublishKey, _ answer: [UInt8]?, on link: RedisLink, until end: Instant, _ done: @escaping () -> Void
    ) {
        ask(link, key.bucket(of: link.shared.keys.count)) {
            key.command(answer == nil ? "abandon" : "settle", answer ?? [], from: $0)
        } _: { [weak link] reply in
            done()
            if case .value = reply { return }
            guard let link, Instant.read() < end else { return }
            link.heart?.later { [weak link] in link.map { say(key, answer, on: $0, until: end) {} } }
        }
    }
}
