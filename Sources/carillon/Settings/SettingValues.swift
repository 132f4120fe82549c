import FoundationEssentials
import Gateway
import Reactor

/// Readers of setting values from text. Pure: no file is opened and no name resolved.
enum SettingValues {
    /// A whole number within bounds.
    static func count(_ bounds: ClosedRange<Int>) -> @Sendable (String) throws(BadValue) -> Int {
        { text throws(BadValue) in
            guard let number = Int(text), bounds.contains(number) else {
                throw BadValue("a whole number from \(bounds.lowerBound) to \(bounds.upperBound)")
            }
            return number
        }
    }

    /// A number of bytes: plain, or with `KiB` or `MiB`.
    static func bytes(_ bounds: ClosedRange<Int>) -> @Sendable (String) throws(BadValue) -> Int {
        { text throws(BadValue) in
            var digits = text[...]
            var unit = 1
            for (suffix, factor) in [("KiB", 1 << 10), ("MiB", 1 << 20)] where text.hasSuffix(suffix) {
                digits = text.dropLast(suffix.count)
                unit = factor
            }
            guard let number = Int(digits), !number.multipliedReportingOverflow(by: unit).overflow,
                bounds.contains(number * unit)
            else {
                throw BadValue(
                    "a number of bytes such as 65536, 64KiB or 1MiB, from \(bounds.lowerBound) to \(bounds.upperBound)")
            }
            return number * unit
        }
    }

    /// A number of bytes in the shortest of the forms that `bytes` reads.
    static func brief(bytes: Int) -> String {
        for (suffix, factor) in [("MiB", 1 << 20), ("KiB", 1 << 10)] where bytes > 0 && bytes % factor == 0 {
            return "\(bytes / factor)\(suffix)"
        }
        return "\(bytes)"
    }

    /// A span of time: seconds, or with the unit `ms`, `s`, `m` or `h`.
    static func duration(_ bounds: ClosedRange<Duration>) -> @Sendable (String) throws(BadValue) -> Duration {
        { text throws(BadValue) in
            guard let duration = duration(of: text), bounds.contains(duration) else {
                throw BadValue(
                    "a time such as 30s, 1.5s, 500ms or 2m, from \(brief(bounds.lowerBound)) to "
                        + brief(bounds.upperBound))
            }
            return duration
        }
    }

    /// Reads a span of time; nil if the text is none, or longer than ten thousand days.
    static func duration(of text: String) -> Duration? {
        let units: [(String, Double)] = [("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600)]
        let unit = units.first { text.hasSuffix($0.0) }
        let digits = text.dropLast(unit?.0.count ?? 0)
        // Double() would also take "nan", "inf" and "0x1p3".
        guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }),
            let number = Double(digits)
        else { return nil }
        let seconds = number * (unit?.1 ?? 1)
        guard seconds <= 864_000_000 else { return nil }
        return .milliseconds(Int64((seconds * 1000).rounded()))
    }

    /// A span of time in the shortest of the forms that `duration` reads.
    static func brief(_ duration: Duration) -> String {
        let milliseconds = duration / .milliseconds(1)
        if milliseconds >= 60_000, milliseconds.truncatingRemainder(dividingBy: 60_000) == 0 {
            return "\(Int(milliseconds / 60_000))m"
        }
        if milliseconds.truncatingRemainder(dividingBy: 1000) == 0 { return "\(Int(milliseconds / 1000))s" }
        return "\(Int(milliseconds))ms"
    }

    /// Text of which there must be some.
    static let text: @Sendable (String) throws(BadValue) -> String = { text throws(BadValue) in
        guard !text.isEmpty else { throw BadValue("a text that is not empty") }
        return text
    }

    /// Paths of files, separated by commas.
    static let paths: @Sendable (String) throws(BadValue) -> [String] = { text throws(BadValue) in
        let paths = text.split(separator: ",", omittingEmptySubsequences: false)
            .map(\.trimmed)
        guard paths.allSatisfy({ !$0.isEmpty }) else { throw BadValue("paths of files, separated by commas") }
        return paths
    }

    /// `true` or `false`.
    static let flag: @Sendable (String) throws(BadValue) -> Bool = { text throws(BadValue) in
        switch text {
        case "true": return true
        case "false": return false
        default: throw BadValue("true or false")
        }
    }

    /// One of the raw values of an enumeration.
    static func choice<Choice>(_ type: Choice.Type) -> @Sendable (String) throws(BadValue) -> Choice
    where Choice: RawRepresentable<String> & CaseIterable & Sendable {
        { text throws(BadValue) in
            guard let choice = Choice(rawValue: text) else {
                throw BadValue("one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "))
            }
            return choice
        }
    }

    /// Exact origins (`scheme://host` or `scheme://host:port`), separated by commas, or `*`.
    static let origins: @Sendable (String) throws(BadValue) -> [String] = { text throws(BadValue) in
        let origins = text.split(separator: ",").map(\.trimmed)
        for origin in origins where origin != "*" {
            let parts = origin.split(separator: "://", omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty, !parts[1].contains("/"),
                !origin.contains("*")
            else {
                throw BadValue(
                    "origins such as https://app.example.org (scheme, host and port; no path), separated by commas, or *"
                )
            }
        }
        return origins.map { $0.lowercased() }
    }

    /// Addresses, ranges of them and `unix`, separated by commas; none of them where it is empty.
    static let peers: @Sendable (String) throws(BadValue) -> TrustedPeers = { text throws(BadValue) in
        var peers = TrustedPeers()
        for word in text.split(separator: ",", omittingEmptySubsequences: true) {
            let name = word.trimmed
            if name == "unix" {
                peers.includesUnix = true
            } else if let range = AddressRange(name) {
                peers.ranges.append(range)
            } else {
                throw BadValue("addresses such as 10.0.0.5, 10.0.0.0/8 or fd00::/8, and unix, separated by commas")
            }
        }
        guard peers.ranges.count <= TrustedPeers.rangesMax else {
            throw BadValue("at most \(TrustedPeers.rangesMax) addresses and ranges")
        }
        return peers
    }

    /// A PostgreSQL connection string: a URI, or `keyword=value` pairs.
    static let database: @Sendable (String) throws(BadValue) -> String = { text throws(BadValue) in
        guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") || text.contains("=") else {
            throw BadValue("postgresql://user@host/database, or host=… dbname=… user=…")
        }
        return text
    }
}
