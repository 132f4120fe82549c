import FoundationEssentials
import Gateway
import Postgres
import Reactor

/// The syntax of a setting's values. Pure: opens no file and resolves no name.
struct Form<Value: Sendable>: Sendable {
    /// The format of a value, for people.
    let takes: String
    /// Parses a value. The error says what is accepted.
    let parse: @Sendable (String) throws(BadValue) -> Value
    /// The text of a value in the format of `parse`; nil when it has none.
    private(set) var text: @Sendable (Value) -> String? = { "\($0)" }

    init(_ takes: String, parse: @escaping @Sendable (String) throws(BadValue) -> Value) {
        (self.takes, self.parse) = (takes, parse)
    }

    /// The form with another function for the texts of values.
    func written(_ text: @escaping @Sendable (Value) -> String?) -> Form {
        var form = self
        form.text = text
        return form
    }

    static func optional<Wrapped>(_ form: Form<Wrapped>) -> Form where Value == Wrapped? {
        Form(form.takes, parse: form.parse).written { $0.flatMap(form.text) }
    }
}

// MARK: Numbers

extension Form where Value: FixedWidthInteger {
    static func count(_ bounds: ClosedRange<Value>, takes: String = "count") -> Form {
        Form(takes) { text throws(BadValue) in
            guard let number = Value(text), bounds.contains(number) else {
                throw BadValue("a whole number from \(bounds.lowerBound) to \(bounds.upperBound)")
            }
            return number
        }
    }
}

extension Form<Int?> {
    /// A whole number within bounds, where 0 means no bound.
    static func bound(_ bounds: ClosedRange<Int>) -> Form {
        let form = Form<Int>.count(bounds)
        return Form(form.takes) { text throws(BadValue) in
            let number = try form.parse(text)
            return number > 0 ? number : nil
        }.written { "\($0 ?? 0)" }
    }
}

extension Form<Int> {
    /// A number of bytes: plain, or with `KiB` or `MiB`.
    static func bytes(_ bounds: ClosedRange<Int>) -> Form {
        Form("bytes") { text throws(BadValue) in
            let unit = units.first { text.hasSuffix($0.name) }
            let (number, isTooLarge) = (Int(text.dropLast(unit?.name.count ?? 0)) ?? -1)
                .multipliedReportingOverflow(by: unit?.bytes ?? 1)
            guard !isTooLarge, bounds.contains(number) else {
                throw BadValue(
                    "a number of bytes such as 65536, 64KiB or 1MiB, from \(bounds.lowerBound) to \(bounds.upperBound)")
            }
            return number
        }.written { Form.brief($0) }
    }

    /// A number of bytes in the shortest format that `bytes` reads.
    static func brief(_ number: Int) -> String {
        guard number > 0, let unit = units.first(where: { number % $0.bytes == 0 }) else { return "\(number)" }
        return "\(number / unit.bytes)\(unit.name)"
    }

    private static var units: [(name: String, bytes: Int)] { [("MiB", 1 << 20), ("KiB", 1 << 10)] }
}

extension Form<Duration> {
    /// A duration: seconds, or with the unit `ms`, `s`, `m` or `h`.
    static func time(_ bounds: ClosedRange<Duration>) -> Form {
        Form("time") { text throws(BadValue) in
            guard let duration = Form.duration(text), bounds.contains(duration) else {
                throw BadValue(
                    "a time such as 30s, 1.5s, 500ms or 2m, from \(brief(bounds.lowerBound)) to "
                        + brief(bounds.upperBound))
            }
            return duration
        }.written { Form.brief($0) }
    }

    /// Parses a duration; nil if it is invalid or longer than 10,000 days.
    static func duration(_ text: String) -> Duration? {
        let units: [(name: String, seconds: Double)] = [("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600)]
        let unit = units.first { text.hasSuffix($0.name) }
        let digits = text.dropLast(unit?.name.count ?? 0)
        // `Double` would also accept "nan", "inf" and "0x1p3".
        guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }),
            let number = Double(digits)
        else { return nil }
        let seconds = number * (unit?.seconds ?? 1)
        return seconds <= 864_000_000 ? .milliseconds(Int64((seconds * 1000).rounded())) : nil
    }

    /// A duration in the shortest format that `duration` reads.
    static func brief(_ duration: Duration) -> String {
        let milliseconds = Int(duration / .milliseconds(1))
        if milliseconds >= 60_000, milliseconds % 60_000 == 0 { return "\(milliseconds / 60_000)m" }
        return milliseconds % 1000 == 0 ? "\(milliseconds / 1000)s" : "\(milliseconds)ms"
    }
}

// MARK: Words

extension Form<Bool> {
    static var flag: Form {
        Form("true or false") { text throws(BadValue) in
            guard let flag = Bool(text) else { throw BadValue("true or false") }
            return flag
        }
    }
}

extension Form where Value: RawRepresentable<String> & CaseIterable {
    static func choice(_ takes: String) -> Form {
        Form(takes) { text throws(BadValue) in
            guard let choice = Value(rawValue: text) else {
                throw BadValue("one of " + Value.allCases.map(\.rawValue).joined(separator: ", "))
            }
            return choice
        }
    }
}

extension Form<String> {
    static func text(_ takes: String = "text", bytes: ClosedRange<Int>, mustBe: String? = nil) -> Form {
        Form(takes) { text throws(BadValue) in
            guard bytes.contains(text.utf8.count) else {
                throw BadValue(mustBe ?? "a text of \(bytes.lowerBound) to \(bytes.upperBound) bytes")
            }
            return text
        }
    }

    static func some(_ takes: String) -> Form { text(takes, bytes: 1...Int.max, mustBe: "a text that is not empty") }

    /// A PostgreSQL connection string: a URI, or `keyword=value` pairs.
    static var database: Form {
        Form("connection string") { text throws(BadValue) in
            guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") || text.contains("=") else {
                throw BadValue("postgresql://user@host/database, or host=… dbname=… user=…")
            }
            guard !ConnectionParameters.cutsPassword(text) else {
                throw BadValue(
                    "another: \(ConnectionParameters.encodeAdvice)", of: "databaseURL, of which nothing is shown,")
            }
            guard (try? ConnectionParameters(text)) != nil else {
                throw BadValue(
                    """
                    one that libpq can read: it has an unknown parameter, a stray blank, or a % that does not begin an \
                    escape (write %25)
                    """,
                    of: "databaseURL, of which nothing is shown,")
            }
            return text
        }
    }
}

extension Form<[String]> {
    static var paths: Form {
        Form("paths") { text throws(BadValue) in
            let paths = text.split(separator: ",", omittingEmptySubsequences: false).map(\.trimmed)
            guard paths.allSatisfy({ !$0.isEmpty }) else { throw BadValue("paths of files, separated by commas") }
            return paths
        }.written { $0.isEmpty ? nil : $0.joined(separator: ",") }
    }
}

extension Form<UInt32> {
    static var mode: Form {
        Form("octal") { text throws(BadValue) in
            guard let mode = UInt32(text, radix: 8), mode <= 0o777, mode & 0o600 == 0o600 else {
                throw BadValue(
                    "an octal number from 0600 to 0777 that lets the hub's user read and write, such as 0660")
            }
            return mode
        }.written { "0" + String($0, radix: 8) }
    }
}

// MARK: Clients

extension Form<AllowedOrigins> {
    /// Exact origins (`scheme://host` or `scheme://host:port`), separated by commas, or `*`.
    static var origins: Form {
        Form("origins") {
            text throws(BadValue) in
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
            return origins.contains("*") ? .any : .only(Set(origins.map { $0.lowercased() }))
        }.written { $0 == .any ? "*" : nil }
    }
}

extension Form<TrustedPeers> {
    /// Addresses, address ranges and `unix`, separated by commas; may be empty.
    static var peers: Form {
        // The default is empty; no other value is ever printed.
        Form("addresses") { text throws(BadValue) in
            var peers = TrustedPeers()
            for name in text.split(separator: ",").map(\.trimmed) {
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
        }.written { $0 == TrustedPeers() ? "" : nil }
    }
}

extension Form<CompressionSettings?> {
    static var compression: Form {
        Form(Form<Bool>.flag.takes) { text throws(BadValue) in
            try Form<Bool>.flag.parse(text) ? CompressionSettings() : nil
        }.written { "\($0 != nil)" }
    }
}
