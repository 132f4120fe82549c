import Glibc

/// Polls until the condition holds, for at most two minutes, and returns whether it does.
///
/// For state without notifications, such as another thread's counter. Sleeps two milliseconds between polls. Only on
/// threads that may block (`OwnThread`).
public func eventually(_ isSo: () throws -> Bool) rethrows -> Bool {
    let end = ContinuousClock.now + .seconds(120)
    while try !isSo() {
        guard ContinuousClock.now < end else { return false }
        usleep(2_000)
    }
    return true
}
