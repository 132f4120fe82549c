import FoundationEssentials
import Glibc

/// Writes what a device receives, one line each: coloured where standard output is a terminal.
struct EventPrinter {
    private let colour = isatty(STDOUT_FILENO) == 1

    /// An event: time, channel, name, data.
    func event(channel: String, name: String, data: String) {
        say("\(paint(clock(), "2"))  \(paint(channel, "36"))  \(paint(name, "1"))  \(oneLine(data))")
    }

    /// What happened to the connection; on standard error, so that standard output holds events alone.
    func note(_ text: String) {
        complain(isatty(STDERR_FILENO) == 1 ? "\u{1B}[2m\(clock())  \(oneLine(text))\u{1B}[0m" : oneLine(text))
    }

    private func paint(_ text: String, _ code: String) -> String {
        colour ? "\u{1B}[\(code)m\(oneLine(text))\u{1B}[0m" : oneLine(text)
    }

    /// Control characters of a peer must not drive the terminal.
    private func oneLine(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else { return text }
        return text.unicodeScalars.map { scalar in
            scalar.properties.generalCategory == .control ? scalar.escaped(asASCII: true) : String(scalar)
        }.joined()
    }

    private func clock() -> String {
        var seconds = time(nil)
        var parts = tm()
        localtime_r(&seconds, &parts)
        return [parts.tm_hour, parts.tm_min, parts.tm_sec].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
    }
}
