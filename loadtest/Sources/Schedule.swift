import CLinux
import Clock
import Foundation
import Glibc
import Reactor

/// Due times at a mean rate with random gaps, as from independent people and as with `pgbench --rate`. The same seed gives
/// the same times.
struct Schedule {
    private(set) var next: Instant
    private let meanNanoseconds: Double
    private var random: SeededGenerator

    /// `rate` per second, from `start`.
    init(rate: Double, start: Instant, seed: UInt64) {
        meanNanoseconds = 1e9 / rate
        random = SeededGenerator(seed: seed)
        next = start
        advance()
    }

    /// Moves on to the following due time.
    mutating func advance() {
        let pause = -log(Double.random(in: Double.leastNonzeroMagnitude..<1, using: &random)) * meanNanoseconds
        next = next.advanced(by: .nanoseconds(Int64(min(pause, 1e12))))
    }
}

/// Wakes a loop at due times, since epoll_wait only counts milliseconds.
final class Metronome: EventSource {
    private let descriptor: Int32
    private let loop: EventLoop

    /// Wakes `loop` at the schedule's times up to `end`, from its own thread.
    init(_ schedule: Schedule, until end: Instant, loop: EventLoop) throws {
        descriptor = cl_eventfd()
        self.loop = loop
        super.init()
        guard descriptor >= 0 else { throw LoadFailure("eventfd: \(String(cString: strerror(errno)))") }
        try loop.add(self, descriptor: descriptor, interest: .readable)
        // The thread's own descriptor: it may outlive this object by one pause.
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

    func stop() {
        loop.remove(self)
    }
}

func sleep(until instant: Instant) {
    let now = Instant.read()
    guard instant > now else { return }
    let nanoseconds = instant.nanoseconds - now.nanoseconds
    var time = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    var rest = timespec()
    while nanosleep(&time, &rest) != 0, errno == EINTR { time = rest }
}
