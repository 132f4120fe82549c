import Clock
import HubEngine
import Logging
import RESP

/// What the log is told of the other hubs: who has joined, has ended, or is taken for dead, and that some serve other apps.
/// Each hub says it, by what its beats hear. The first loop's heart has one.
struct GroupWatch {
    /// What each hub says of itself, by its number; nil: it is not known who was there.
    private var known: [String: String]?
    /// Numbers that this hub has had.
    private var own: Set<String> = []
    /// Since when others have had those apps (`AppsDigest`).
    private var others: [String: Instant] = [:]
    private var told: Set<String> = []

    /// How long apps may differ, as when all hubs read them again.
    private static let patience = Duration.seconds(10)

    /// Nobody knows who comes and goes for a while.
    mutating func forget() { known = nil }

    /// - Parameters:
    ///   - all: a hash: what each hub says of itself.
    ///   - dead: a hash: how long those were silent who were taken for dead a moment ago, in milliseconds.
    mutating func hear(
        _ all: [RESPValue], dead: [RESPValue], as hub: HubID, serving apps: String, now: Instant, _ logger: Logger
    ) {
        let hubs = Self.pairs(all)
        own.insert("\(hub.number)")
        if let known {
            for (number, about) in hubs where known[number] == nil && !own.contains(number) {
                logger.info("a hub has joined", metadata: Self.metadata(number, about))
            }
            let silences = Self.pairs(dead)
            for (number, about) in known where hubs[number] == nil && !own.contains(number) {
                var metadata = Self.metadata(number, about)
                if let silence = silences[number].flatMap({ Int($0) }) {
                    metadata["silent"] = "\(silence / 1_000).\(silence % 1_000 / 100) s"
                    logger.warning("a hub is taken for dead: it was silent for too long", metadata: metadata)
                } else {
                    logger.info("a hub has ended", metadata: metadata)
                }
            }
        }
        known = hubs
        compare(hubs, apps, now, logger)
    }

    private mutating func compare(_ hubs: [String: String], _ apps: String, _ now: Instant, _ logger: Logger) {
        var differing: [String: String] = [:]
        for (number, about) in hubs {
            if let theirs = AppsDigest.read(about), theirs != apps { differing[theirs] = number }
        }
        others = others.filter { differing[$0.key] != nil }
        for (theirs, number) in differing {
            guard let since = others[theirs] else {
                others[theirs] = now
                continue
            }
            guard now.duration(since: since) >= Self.patience, told.insert(theirs).inserted else { continue }
            logger.warning(
                "another hub serves other apps, or has other secrets, limits or switches for them: give all hubs the same",
                metadata: Self.metadata(number, hubs[number] ?? ""))
        }
        if differing.isEmpty, !told.isEmpty {
            told = []
            logger.info("all hubs serve the same apps again")
        }
    }

    private static func metadata(_ number: String, _ about: String) -> Logger.Metadata {
        ["hub": "\(number)", "is": "\(about)"]
    }

    private static func pairs(_ hash: [RESPValue]) -> [String: String] {
        var pairs: [String: String] = [:]
        for index in stride(from: 0, to: hash.count - 1, by: 2) {
            guard case .bytes(let name) = hash[index], case .bytes(let value) = hash[index + 1] else { continue }
            pairs[String(decoding: name, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        }
        return pairs
    }
}
