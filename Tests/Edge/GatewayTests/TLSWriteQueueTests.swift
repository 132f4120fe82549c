import Bytes
import Clock
import Glibc
import Reactor
import TestSupport
import Testing

@testable import Gateway

/// A queue's output through TLS: the same bytes, in few records.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct TLSWriteQueueTests {
    private let wires: (TLSWire, TLSWire)
    private let session: TLSSession
    private let peer: TLSSession
    private let ends: (Int32, Int32)
    private let room: UnsafeMutableRawBufferPointer

    /// An established session, and its client.
    init() throws {
        let folder = try CertificateFolder()
        let pair = try folder.make("one", hosts: ["localhost"])
        let server = try TLSServer(.init(certificates: [.init(certificate: pair.certificate, key: pair.key)]))
        var sockets: [Int32] = [-1, -1]
        let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | flags, 0, &sockets) == 0)
        ends = (sockets[0], sockets[1])
        wires = (try TLSWire(), try TLSWire())
        room = .allocate(byteCount: 256 << 10, alignment: 8)
        session = try server.session(on: wires.0)
        peer = try TLSClient().session(host: nil, on: wires.1)
        try #require(peer.start(ends.1) == .all)
        while !session.isEstablished || !peer.isEstablished {
            _ = session.receive(ends.0, into: room)
            _ = peer.receive(ends.1, into: room)
        }
        // The session ticket.
        _ = peer.receive(ends.1, into: room)
    }

    private func end() {
        close(ends.0)
        close(ends.1)
        room.deallocate()
    }

    private func frame(_ count: Int, _ random: inout SeededRandom) -> SharedBytes {
        random.bytes(count).withUnsafeBytes { SharedBytes.copy($0) }
    }

    /// Lengths of the records in the peer's socket, which are left there.
    private func recordLengths() -> [Int] {
        var bytes = [UInt8](repeating: 0, count: 4 << 20)
        let count = recv(ends.1, &bytes, bytes.count, Int32(MSG_PEEK))
        var lengths: [Int] = []
        var offset = 0
        while offset + 5 <= count {
            lengths.append(Int(bytes[offset + 3]) << 8 | Int(bytes[offset + 4]))
            offset += 5 + (lengths.last ?? 0)
        }
        return lengths
    }

    private func read(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count, case .bytes(let read) = peer.receive(ends.1, into: room) { bytes += room[..<read] }
        return bytes
    }

    @Test(arguments: [
        ([100], 1), ([100, 100, 100], 1), (Array(repeating: 50, count: 200), 1), ([16_384], 1), ([16_385], 2),
        ([16_383, 1], 1), ([16_383, 2], 2), ([0, 5, 0], 1), ([0], 0), ([40_000], 3), ([10_000, 10_000], 2),
        ([1, 100_000, 1], 7),
    ])
    func smallFramesShareRecords(_ lengths: [Int], _ records: Int) throws {
        defer { end() }
        var random = SeededRandom()
        var queue = WriteQueue()
        var sent: [UInt8] = []
        for length in lengths {
            let frame = frame(length, &random)
            queue.append(frame)
            sent += frame.array
        }
        #expect(queue.flush(through: session, to: ends.0) == .drained)
        #expect(queue.isEmpty && queue.byteCount == 0)
        #expect(recordLengths().count == records)
        #expect(read(sent.count) == sent, "seed \(random.seed)")
    }

    /// A socket that takes little at a time: no byte is lost or repeated.
    @Test func whatTheSocketDoesNotTakeFollows() throws {
        defer { end() }
        var small: Int32 = 1
        setsockopt(ends.0, SOL_SOCKET, SO_SNDBUF, &small, 4)
        var random = SeededRandom()
        var queue = WriteQueue()
        var sent: [UInt8] = []
        var received: [UInt8] = []
        var wasBlocked = false
        for _ in 0..<100 {
            for _ in 0..<Int.random(in: 0...5, using: &random) {
                let frame = frame(Int.random(in: 0...20_000, using: &random), &random)
                queue.append(frame)
                sent += frame.array
            }
            let outcome = queue.flush(through: session, to: ends.0)
            try #require(outcome != .broken)
            wasBlocked = wasBlocked || outcome == .blocked
            #expect((outcome == .drained) == (queue.isEmpty && !session.hasUnsent))
            if Bool.random(using: &random) { received += read(Int.random(in: 0...60_000, using: &random)) }
        }
        while received.count < sent.count {
            try #require(queue.flush(through: session, to: ends.0) != .broken)
            received += read(sent.count - received.count)
        }
        #expect(wasBlocked)
        #expect(received == sent, "seed \(random.seed)")
    }

    @Test func aPeerThatHasGoneBreaksTheQueue() throws {
        var random = SeededRandom()
        close(ends.1)
        defer {
            close(ends.0)
            room.deallocate()
        }
        var queue = WriteQueue()
        // A child started by another test holds the peer's end from its fork to its exec.
        let patience = Instant.read().advanced(by: .seconds(60))
        var outcome = WriteQueue.Outcome.drained
        while outcome == .drained, Instant.read() < patience {
            queue.append(frame(100, &random))
            outcome = queue.flush(through: session, to: ends.0)
        }
        #expect(outcome == .broken)
    }
}
