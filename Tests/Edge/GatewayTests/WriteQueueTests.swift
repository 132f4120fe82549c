import Bytes
import Glibc
import Testing
import WebSocket

@testable import Gateway

/// The output that a peer still gets from a queue whose unsent part is dropped.
@Suite struct WriteQueueTests {
    /// One block of text frames with payloads of these lengths; and each frame's start, with the last one's end.
    private func block(_ lengths: [Int]) -> (block: SharedBytes, bounds: [Int]) {
        var writer = ByteWriter()
        var bounds = [0]
        for (number, length) in lengths.enumerated() {
            FrameWriter.appendText(to: &writer) { $0.append(utf8: String(repeating: "\(number % 10)", count: length)) }
            bounds.append(writer.count)
        }
        return (writer.finish(), bounds)
    }

    private var closeFrame: SharedBytes {
        var writer = ByteWriter()
        FrameWriter.appendClose(CloseCode(rawValue: 4110), reason: "Access revoked", to: &writer)
        return writer.finish()
    }

    private func flushed(_ queue: inout WriteQueue) throws -> [UInt8] {
        var pair: [Int32] = [0, 0]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &pair) == 0)
        defer {
            for descriptor in pair { close(descriptor) }
        }
        let gather = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 8)
        defer { gather.deallocate() }
        try #require(queue.flush(to: pair[0], gather: gather) == .drained)
        shutdown(pair[0], Int32(SHUT_WR))
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(pair[1], &chunk, chunk.count, 0)
            if count <= 0 { return bytes }
            bytes += chunk[0..<count]
        }
    }

    /// Sends `sent` bytes of two blocks, drops the rest `times` over, and appends the close frame.
    private func check(_ lengths: [Int], sent: Int, times: Int = 1) throws {
        try check(block(lengths), sent: sent, times: times)
    }

    private func check(_ made: (block: SharedBytes, bounds: [Int]), sent: Int, times: Int = 1) throws {
        let (first, bounds) = made
        var queue = WriteQueue()
        for _ in 0..<2 { queue.append(first) }
        queue.advance(by: sent)
        for _ in 0..<times { queue.dropUnsent() }
        let inBlock = sent % first.count
        let end = try #require(bounds.first { $0 >= inBlock })
        #expect(queue.byteCount == end - inBlock, "\(sent) sent")
        #expect(queue.isEmpty == (end == inBlock))
        queue.append(closeFrame)
        #expect(queue.byteCount == end - inBlock + closeFrame.count)
        let expected = Array(first.array[inBlock..<end]) + closeFrame.array
        #expect(try flushed(&queue) == expected, "\(sent) sent")
        #expect(queue.byteCount == 0 && queue.isEmpty)
    }

    @Test func onlyTheFrameSentInPartGoesOn() throws {
        let lengths = [0, 1, 125, 126, 0, 300, 7]
        for sent in 0..<2 * block(lengths).block.count { try check(lengths, sent: sent, times: 1 + sent % 2) }
    }

    @Test func soItIsWithCompressedFrames() throws {
        var writer = ByteWriter()
        var bounds = [0]
        let deflater = FrameDeflater(threshold: 100, level: 2)
        for length in [3, 120, 40_000, 99] {
            let plain = block([length]).block
            writer.append(deflater.compress(plain, .wide).frames ?? plain)
            bounds.append(writer.count)
        }
        let compressed = writer.finish()
        #expect(compressed.count < 500)
        for sent in 0..<2 * compressed.count { try check((compressed, bounds), sent: sent, times: 1 + sent % 2) }
    }

    @Test func soItIsWithLongFrames() throws {
        let lengths = [65_535, 3, 65_536, 70_000]
        let bounds = block(lengths).bounds
        for bound in bounds.dropLast() {
            for sent in bound..<bound + 14 { try check(lengths, sent: sent) }
        }
        for bound in bounds.dropFirst() { try check(lengths, sent: bound - 1) }
    }

    /// Without the response, the peer could not parse the close frame.
    @Test(arguments: [0, 1, 20])
    func theResponseOfTheUpgradeStays(_ sent: Int) throws {
        let response = SharedBytes.copy("HTTP/1.1 101 Switching Protocols\r\n\r\n")
        var queue = WriteQueue()
        queue.append(response)
        queue.append(block([5, 6]).block)
        queue.advance(by: sent)
        queue.dropUnsent()
        queue.append(closeFrame)
        #expect(try flushed(&queue) == Array(response.array[sent...]) + closeFrame.array)
    }
}
