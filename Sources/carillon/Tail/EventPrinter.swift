import FoundationEssentials
import Glibc

/// Prints what a device receives, one line each, coloured when standard output is a terminal.
struct EventPrinter {
    private let colour = isatty(STDOUT_FILENO) == 1

    func event(channel: String, name: String, data: String) {
        say("\(paint(clock(), "2"))  \(paint(channel, "36"))  \(paint(name, "1"))  \(data.printable)")
    }

    /// A note about the connection, on standard error: standard output has only events.
    func note(_ text: String) {
        complain(isatty(STDERR_FILENO) == 1 ? "\u{1B}[2m\(clock())  \(text.printable)\u{1B}[0m" : text.printable)
    }

    private func paint(_ text: String, _ code: String) -> String {
        colour ? "\u{1B}[\(code)m\(text.printable)\u{1B}[0m" : text.printable
    }

    private func clock() -> String {
        var seconds = time(nil)
        var parts = tm()
        localtime_r(&seconds, &parts)
        return [parts.tm_hour, parts.tm_min, parts.tm_sec].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
    }
}
