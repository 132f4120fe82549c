import Glibc

/// Waits until it is so, and tells whether it came to be; two minutes at most, which only a failure takes.
///
/// For what nobody tells of, such as a counter of another thread: between two looks it sleeps two milliseconds. Only on
/// threads that may block (`OwnThread`).
public func eventually(_ isSo: () throws -> Bool) rethrows -> Bool {
    let end = ContinuousClock.now + .seconds(120)
    while try !isSo() {
        guard ContinuousClock.now < end else { return false }
        usleep(2_000)
    }
    return true
}
