import Bytes
import Clock
import Glibc
import Reactor
import Testing

@testable import Gateway

@Suite struct TransportTests {
    private final class Pair {
        var transport: Transport
        let peer: Int32
        let gather = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 8)

        init(usesTLS: Bool = false) throws {
            var ends: [Int32] = [0, 0]
            let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
            try #require(socketpair(AF_UNIX, kind, 0, &ends) == 0)
            transport = Transport(ends[0], usesTLS: usesTLS)
            peer = ends[1]
        }

        deinit {
            close(transport.descriptor)
            close(peer)
            gather.deallocate()
        }

        func read(_ room: UnsafeMutableRawBufferPointer) -> TransferResult {
            transport.receive(into: room, keyUpdates: SmallAllowance.rate(perSecond: 1, burst: 1), at: Instant.read())
        }

        /// The peer's input; nil if nothing is there and more may come.
        func heard() -> [UInt8]? {
            var bytes = [UInt8](repeating: 0, count: 1 << 20)
            let count = recv(peer, &bytes, bytes.count, 0)
            return count < 0 ? nil : Array(bytes[..<count])
        }
    }

    @Test func whatIsQueuedLeavesAtOnce() throws {
        let pair = try Pair()
        pair.transport.queue(SharedBytes.copy("a"))
        pair.transport.queue(SharedBytes.copy("b"))
        #expect(pair.transport.hasUnsent && pair.transport.unsentBytes == 2)
        #expect(pair.transport.send(pair.gather) == .drained)
        #expect(pair.heard() == Array("ab".utf8))
        #expect(!pair.transport.hasUnsent && pair.transport.unsentBytes == 0)
    }

    /// Bytes that the socket does not take stay queued, in order.
    @Test func whatIsNotTakenStays() throws {
        let pair = try Pair()
        for letter in "abcdefgh" { pair.transport.queue(SharedBytes.copy(String(repeating: letter, count: 100_000))) }
        var heard: [UInt8] = []
        var blocked = 0
        while pair.transport.hasUnsent {
            if pair.transport.send(pair.gather) == .blocked { blocked += 1 }
            heard += pair.heard() ?? []
        }
        while let more = pair.heard() { heard += more }
        #expect(blocked > 0)
        #expect(heard == "abcdefgh".utf8.flatMap { [UInt8](repeating: $0, count: 100_000) })
    }

    /// Read bytes are appended to the held ones, and never exceed the buffer.
    @Test(arguments: [0, 5, LoopBuffers.readRoom, 2 * LoopBuffers.readRoom - 1, 2 * LoopBuffers.readRoom])
    func readsBehindWhatIsHeld(_ held: Int) throws {
        let pair = try Pair()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 * LoopBuffers.readRoom, alignment: 1)
        defer { buffer.deallocate() }
        let room = pair.transport.room(behind: held, in: buffer)
        #expect(room?.count == (held == buffer.count ? nil : min(LoopBuffers.readRoom, buffer.count - held)))
        guard let room else { return }
        #expect(room.baseAddress == buffer.baseAddress.map { $0 + held })
        #expect(pair.read(room) == .wouldBlock)
        send(pair.peer, "x", 1, 0)
        #expect(pair.read(room) == .bytes(1))
        #expect(buffer[held] == UInt8(ascii: "x"))
        shutdown(pair.peer, Int32(SHUT_WR))
        #expect(pair.read(room) == .endOfStream)
    }

    @Test func theStreamEndsBehindTheLastWords() throws {
        let pair = try Pair()
        pair.transport.queue(SharedBytes.copy("bye"))
        pair.transport.finish()
        #expect(pair.transport.state == .finishing)
        #expect(pair.transport.send(pair.gather) == .drained)
        pair.transport.endStream()
        #expect(pair.heard() == Array("bye".utf8))
        #expect(pair.heard() == [], "the end")
    }

    /// Nothing is sent after lost bytes, and earlier bytes can still be read.
    @Test func whatCameBeforeTheBreakIsRead() throws {
        let pair = try Pair()
        send(pair.peer, "x", 1, 0)
        pair.transport.queue(SharedBytes.copy("lost"))
        pair.transport.forgetUnsent()
        pair.transport.broke()
        #expect(pair.transport.isBroken && !pair.transport.hasUnsent)
        pair.transport.queue(SharedBytes.copy("late"))
        #expect(pair.transport.send(pair.gather) == .broken)
        #expect(pair.heard() == [])
        var byte: UInt8 = 0
        #expect(withUnsafeMutableBytes(of: &byte) { pair.read($0) } == .bytes(1))
    }

    @Test func thereIsNoWayBack() throws {
        let pair = try Pair(usesTLS: true)
        #expect(pair.transport.state == .securing && pair.transport.tls == nil)
        pair.transport.opened()
        #expect(pair.transport.state == .open)
        pair.transport.finish()
        pair.transport.opened()
        #expect(pair.transport.state == .finishing)
        pair.transport.queue(SharedBytes.copy("x"))
        pair.transport.shut()
        pair.transport.finish()
        pair.transport.opened()
        #expect(pair.transport.state == .shut && !pair.transport.hasUnsent)
    }
}
