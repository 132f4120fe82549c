import Care
import Foundation

/// Time zones, as the rules want them.
enum Zones {
    /// Seconds by which a zone is ahead of UTC at an instant; nil for an unknown zone.
    static func offset(_ zone: String, _ instant: Timestamp) -> Int? {
        named(zone)?.secondsFromGMT(for: Date(timeIntervalSince1970: Double(instant.microseconds) / 1_000_000))
    }

    static func offset(_ zone: String, second: Int) -> Int {
        named(zone)?.secondsFromGMT(for: Date(timeIntervalSince1970: Double(second))) ?? 0
    }

    /// A zone's changes, from a year before a second until two years after it.
    static func transitions(_ name: String, around second: Int) -> ZoneTransitions {
        let begin = second - 366 * 86_400
        guard let zone = named(name) else { return ZoneTransitions(name, offset: 0) }
        var date = Date(timeIntervalSince1970: Double(begin))
        let end = Date(timeIntervalSince1970: Double(second + 2 * 366 * 86_400))
        let first = zone.secondsFromGMT(for: date)
        var found: [ZoneTransitions.Transition] = []
        while let next = zone.nextDaylightSavingTimeTransition(after: date), next > date, next < end {
            let at = Int(next.timeIntervalSince1970)
            found.append(.init(at: at, to: zone.secondsFromGMT(for: next)))
            date = next
        }
        // Foundation may know it by another name: UTC is GMT there.
        return ZoneTransitions(name, offset: first, transitions: found)
    }

    private static func named(_ name: String) -> TimeZone? { cache.zone(name) }

    private static let cache = Cache()

    /// Making a zone reads a file.
    private final class Cache: @unchecked Sendable {
        private let lock = NSLock()
        private var zones: [String: TimeZone?] = [:]

        func zone(_ name: String) -> TimeZone? {
            lock.withLock {
                if let known = zones[name] { return known }
                let zone = TimeZone(identifier: name)
                zones[name] = .some(zone)
                return zone
            }
        }
    }
}

extension Timestamp {
    init(_ date: Date) { self.init(microseconds: Int64((date.timeIntervalSince1970 * 1_000_000).rounded())) }

    /// The second, rounded down.
    var second: Int { Int((Double(microseconds) / 1_000_000).rounded(.down)) }

    var date: Date { Date(timeIntervalSince1970: Double(microseconds) / 1_000_000) }
}
