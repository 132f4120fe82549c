import Bytes
import FoundationEssentials
import Glibc
import JSON
import Logging

/// One log event, and its two written forms.
struct LogLine {
    let level: Logger.Level
    let label: String
    let message: String
    /// In display order.
    let fields: [(name: String, value: String)]

    /// `12:03:04.123 info   message  name=value …`, in local time.
    func text(at time: Date, colour: Bool) -> String {
        let name = level.rawValue.padded(to: 8)
        var line = clock(time) + " " + (colour ? "\u{1B}[\(Self.colour(of: level))m\(name)\u{1B}[0m" : name) + " "
        line += message.printable
        for field in fields {
            let pair = "  \(field.name)=\(field.value.printable)"
            line += colour ? "\u{1B}[2m\(pair)\u{1B}[0m" : pair
        }
        return line
    }

    /// One JSON object: `time` (RFC 3339, UTC), `level`, `logger`, `message`, and the fields by name.
    func json(at time: Date) -> String {
        let stamp = Self.stamp(time)
        var members = [("time", stamp), ("level", level.rawValue), ("logger", label), ("message", message)]
        let taken = Set(members.map(\.0))
        members += fields.map { (taken.contains($0.name) ? "field_" + $0.name : $0.name, $0.value) }
        var writer = ByteWriter(capacity: 256)
        for (index, (name, value)) in members.enumerated() {
            writer.append(UInt8(ascii: index == 0 ? "{" : ","))
            writer.append(jsonString: name)
            writer.append(UInt8(ascii: ":"))
            writer.append(jsonString: value)
        }
        writer.append(UInt8(ascii: "}"))
        return writer.string
    }

    private func clock(_ time: Date) -> String {
        let (parts, milliseconds) = Self.parts(of: time, local: true)
        return "\(Self.clock(parts)).\(Self.padded(milliseconds, 3))"
    }

    /// RFC 3339 with milliseconds, UTC. Foundation's formatters are much slower, and their fraction is optional.
    private static func stamp(_ time: Date) -> String {
        let (parts, milliseconds) = parts(of: time, local: false)
        let day = "\(padded(parts.tm_year + 1900, 4))-\(padded(parts.tm_mon + 1, 2))-\(padded(parts.tm_mday, 2))"
        return "\(day)T\(clock(parts)).\(padded(milliseconds, 3))Z"
    }

    private static func parts(of time: Date, local: Bool) -> (tm, Int) {
        let milliseconds = Int(time.timeIntervalSince1970 * 1000)
        var seconds = time_t(milliseconds / 1000)
        var parts = tm()
        _ = local ? localtime_r(&seconds, &parts) : gmtime_r(&seconds, &parts)
        return (parts, milliseconds % 1000)
    }

    private static func clock(_ parts: tm) -> String {
        "\(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2))"
    }

    private static func padded(_ number: some BinaryInteger, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    private static func colour(of level: Logger.Level) -> String {
        switch level {
        case .trace, .debug: "2"
        case .info: "32"
        case .notice: "36"
        case .warning: "33"
        case .error: "31"
        case .critical: "1;31"
        }
    }
}
