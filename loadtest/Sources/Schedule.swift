import CLinux
import Clock
import Foundation
import Glibc
import Reactor

/// When things are due: at random, so many a second in the mean, as they come from people who do not know of each
/// other, and as `pgbench --rate` has it. The same seed gives the same times.
struct Schedule {
    /// The next one's time.
    private(set) var next: Instant
    private let meanNanoseconds: Double
    private var random: SeededGenerator

    /// `rate` a second, from `start`.
    init(rate: Double, start: Instant, seed: UInt64) {
        meanNanoseconds = 1e9 / rate
        random = SeededGenerator(seed: seed)
        next = start
        advance()
    }

    /// Goes on to the one after.
    mutating func advance() {
        let pause = -log(Double.random(in: Double.leastNonzeroMagnitude..<1, using: &random)) * meanNanoseconds
        next = next.advanced(by: .nanoseconds(Int64(min(pause, 1e12))))
    }
}

/// Wakes a loop whenever something is due: epoll_wait counts in milliseconds, which here are long.
final class Metronome: EventSource {
    private let descriptor: Int32
    private let loop: EventLoop

    /// Wakes `loop` at the schedule's times, up to `end`, from a thread of its own.
    init(_ schedule: Schedule, until end: Instant, loop: EventLoop) throws {
        descriptor = cl_eventfd()
        self.loop = loop
        super.init()
        guard descriptor >= 0 else { throw LoadFailure("eventfd: \(String(cString: strerror(errno)))") }
        try loop.add(self, descriptor: descriptor, interest: .readable)
        // The thread's own, for it may outlive this object by one pause.
        let own = dup(descriptor)
        Thread.detachNewThread {
            var schedule = schedule
            var one: UInt64 = 1
            while schedule.next < end {
                sleep(until: schedule.next)
                guard write(own, &one, 8) == 8 else { break }
                schedule.advance()
            }
            close(own)
        }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    override func ready(_ readiness: Readiness) {
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
    }

    /// No more wakes.
    func stop() {
        loop.remove(self)
    }
}

/// Blocks the thread until `instant`.
func sleep(until instant: Instant) {
    let now = Instant.read()
    guard instant > now else { return }
    let nanoseconds = instant.nanoseconds - now.nanoseconds
    var time = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    var rest = timespec()
    while nanosleep(&time, &rest) != 0, errno == EINTR { time = rest }
}
