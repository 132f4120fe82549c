import Clock
import Glibc
import Reactor
import TestSupport
import Testing

@testable import loadtest

@Suite(.ownThread) struct StampedSocketTests {
    private struct NotTheBytes: Error {}

    /// Two ends of a connection by TCP.
    private func makePair() throws -> (sender: Int32, receiver: Int32) {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let sender = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let isMade = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, $0, &length) == 0
                    && connect(sender, $0, length) == 0
            }
        }
        #expect(isMade)
        return (sender, try #require(accept(listener, nil, nil)))
    }

    @Test func aReadTellsWhenItsBytesCame() throws {
        let (sender, receiver) = try makePair()
        defer {
            close(sender)
            close(receiver)
        }
        StampedSocket.begin(receiver)
        var bytes: [UInt8] = Array(repeating: 0, count: 16)
        // The kernel begins with its stamps a moment after it is asked to. Without one it is the time of the read.
        let isStamped = try eventually {
            let sent = Instant.read()
            #expect(send(sender, "abc", 3, 0) == 3)
            var entry = pollfd(fd: receiver, events: Int16(POLLIN), revents: 0)
            #expect(poll(&entry, 1, 10_000) == 1)
            let readable = Instant.read()
            let received = bytes.withUnsafeMutableBytes { StampedSocket.receive(receiver, into: $0) }
            guard case .bytes(3) = received.result else { throw NotTheBytes() }
            #expect(received.came >= sent)
            return received.came <= readable
        }
        #expect(isStamped)
        #expect(bytes[..<3] == [97, 98, 99])
    }

    @Test func theEndAndNothingAreToldApart() throws {
        let (sender, receiver) = try makePair()
        defer { close(receiver) }
        #expect(fcntl(receiver, F_SETFL, O_NONBLOCK) == 0)
        var bytes: [UInt8] = Array(repeating: 0, count: 16)
        let first = bytes.withUnsafeMutableBytes { StampedSocket.receive(receiver, into: $0).result }
        #expect({ if case .wouldBlock = first { true } else { false } }())
        close(sender)
        var entry = pollfd(fd: receiver, events: Int16(POLLIN), revents: 0)
        #expect(poll(&entry, 1, 10_000) == 1)
        let last = bytes.withUnsafeMutableBytes { StampedSocket.receive(receiver, into: $0).result }
        #expect({ if case .endOfStream = last { true } else { false } }())
    }

    @Test func aTimeOfTheWallClockIsOneOfTheOther() {
        let now = Instant(nanoseconds: 5_000_000_000)
        let wall = timespec(tv_sec: 100, tv_nsec: 500)
        #expect(StampedSocket.time(timespec(tv_sec: 99, tv_nsec: 0), at: now, wall).nanoseconds == 3_999_999_500)
        #expect(StampedSocket.time(timespec(tv_sec: 101, tv_nsec: 0), at: now, wall) == now, "it was set back")
    }
}
