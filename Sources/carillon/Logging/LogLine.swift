import Foundation
import Logging

/// One event of the log, and the two forms in which it is written.
struct LogLine {
    let level: Logger.Level
    let label: String
    let message: String
    /// In the order in which they are shown.
    let fields: [(name: String, value: String)]

    /// `12:03:04.123 info   message  name=value …`, local time.
    func text(at time: Date, colour: Bool) -> String {
        let name = level.rawValue.padding(toLength: 8, withPad: " ", startingAt: 0)
        var line = clock(time) + " " + (colour ? "\u{1B}[\(Self.colour(of: level))m\(name)\u{1B}[0m" : name) + " "
        line += Self.printable(message)
        for field in fields {
            let pair = "  \(field.name)=\(Self.printable(field.value))"
            line += colour ? "\u{1B}[2m\(pair)\u{1B}[0m" : pair
        }
        return line
    }

    /// One JSON object: `time` (RFC 3339, UTC), `level`, `logger`, `message`, and the fields by their names.
    func json(at time: Date) -> String {
        let stamp = time.ISO8601Format(.iso8601(timeZone: .gmt, includingFractionalSeconds: true))
        var members = [("time", stamp), ("level", level.rawValue), ("logger", label), ("message", message)]
        let taken = Set(members.map(\.0))
        members += fields.map { (taken.contains($0.name) ? "field_" + $0.name : $0.name, $0.value) }
        return "{" + members.map { Self.quoted($0.0) + ":" + Self.quoted($0.1) }.joined(separator: ",") + "}"
    }

    private func clock(_ time: Date) -> String {
        var seconds = time_t(time.timeIntervalSince1970)
        var parts = tm()
        localtime_r(&seconds, &parts)
        let milliseconds = Int(time.timeIntervalSince1970 * 1000) % 1000
        func padded(_ number: some BinaryInteger, _ width: Int) -> String {
            String(repeating: "0", count: max(0, width - String(number).count)) + String(number)
        }
        return "\(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2))."
            + padded(milliseconds, 3)
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

    /// Control characters would let a logged value forge lines or drive the terminal.
    private static func printable(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            result += scalar.properties.generalCategory == .control ? scalar.escaped(asASCII: true) : String(scalar)
        }
        return result
    }

    private static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\u{0}"..<" ":
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
