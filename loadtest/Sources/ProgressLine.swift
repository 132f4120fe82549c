import Clock
import Foundation
import Glibc
import Reactor

/// One line on a terminal, rewritten a few times per second. Silent elsewhere.
final class ProgressLine {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var next = Instant(nanoseconds: 0)
    private var isShown = false

    private static let interval = Duration.milliseconds(250)

    /// Shows `text` if an update is due.
    func show(_ text: @autoclosure () -> String) {
        guard isTerminal else { return }
        let now = Instant.read()
        guard now >= next else { return }
        next = now.advanced(by: Self.interval)
        isShown = true
        write("\r\u{1B}[K" + text())
    }

    func clear() {
        guard isShown else { return }
        isShown = false
        write("\r\u{1B}[K")
    }

    private func write(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
    }
}
