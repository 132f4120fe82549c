import Bytes
import Glibc
import Reactor
import WebSocket

/// What one connection has still to be sent: shared frames in order, the first perhaps sent in part. One frame, by far the
/// most common length, needs no heap memory.
struct WriteQueue {
    private var first: SharedBytes?
    private var rest: ContiguousArray<SharedBytes> = []
    private(set) var byteCount = 0
    /// `sent`, in 32 bits: no frame has 4 GB.
    private var sentOfFirst: UInt32 = 0
    /// Bytes sent so far, modulo 2^32: shows whether the peer takes anything.
    private(set) var sentCount: UInt32 = 0

    enum Outcome {
        case drained, blocked, broken
    }

    /// Capacity for further frames: allocated with the second frame, freed when all are sent.
    private static let restMin = 15

    /// Bytes of `first` that are sent.
    private var sent: Int {
        get { Int(sentOfFirst) }
        set { sentOfFirst = UInt32(truncatingIfNeeded: newValue) }
    }

    var isEmpty: Bool { first == nil }
    /// Frames queued, the first perhaps sent in part.
    var frameCount: Int { first == nil ? 0 : rest.count &+ 1 }

    @inline(__always)
    mutating func append(_ frame: consuming SharedBytes) {
        byteCount &+= frame.count
        if first == nil {
            first = frame
        } else {
            if rest.isEmpty { rest.reserveCapacity(Self.restMin) }
            rest.append(frame)
        }
    }

    /// Drops all but a frame sent in part, needed to understand what follows, and the response that opens the WebSocket.
    mutating func dropUnsent() {
        rest = []
        if let block = first { first = unfinishedFrame(of: block) }
        byteCount = (first?.count ?? 0) - sent
    }

    /// The frame of `block` (which may hold many) that is sent in part; the whole block where it holds no frame.
    private mutating func unfinishedFrame(of block: SharedBytes) -> SharedBytes? {
        guard let frame = block.withUnsafeBytes({ FrameBounds.frame(at: sent, in: $0) }) else { return block }
        sent -= frame.lowerBound
        if sent == 0 { return nil }
        if frame.count == block.count { return block }
        return block.withUnsafeBytes { SharedBytes.copy($0.part(frame)) }
    }

    /// Sends as much as the socket takes; `gather` is the loop's scratch.
    @inline(__always)
    mutating func flush(to descriptor: Int32, gather: UnsafeMutableBufferPointer<iovec>) -> Outcome {
        guard rest.isEmpty, let start = first?.baseAddress else { return flushAll(to: descriptor, gather: gather) }
        // Nearly always: one frame, which the socket takes whole.
        let result = Socket.send(descriptor, UnsafeRawBufferPointer(start: start + sent, count: byteCount))
        guard case .bytes(let taken) = result else { return result == .wouldBlock ? .blocked : .broken }
        guard taken == byteCount else {
            advance(by: taken)
            return .blocked
        }
        byteCount = 0
        sentCount &+= UInt32(truncatingIfNeeded: taken)
        sent = 0
        first = nil
        return .drained
    }

    private mutating func flushAll(to descriptor: Int32, gather: UnsafeMutableBufferPointer<iovec>) -> Outcome {
        while let frame = first {
            let result: TransferResult
            let offered: Int
            if rest.isEmpty {
                offered = frame.count &- sent
                result = Socket.send(
                    descriptor, UnsafeRawBufferPointer(start: frame.baseAddress + sent, count: offered))
            } else {
                offered = gatherFrames(frame, gather)
                let count = Swift.min(rest.count + 1, gather.count)
                result = Socket.send(descriptor, gathering: UnsafeMutableBufferPointer(rebasing: gather[0..<count]))
            }
            switch result {
            case .bytes(let count):
                advance(by: count)
                if count < offered { return .blocked }
            case .wouldBlock: return .blocked
            case .endOfStream, .failed: return .broken
            }
        }
        return .drained
    }

    private func gatherFrames(_ frame: SharedBytes, _ gather: UnsafeMutableBufferPointer<iovec>) -> Int {
        gather[0] = iovec(
            iov_base: UnsafeMutableRawPointer(mutating: frame.baseAddress + sent), iov_len: frame.count - sent)
        var offered = frame.count - sent
        for index in 1..<Swift.min(rest.count + 1, gather.count) {
            let frame = rest[index - 1]
            gather[index] = iovec(iov_base: UnsafeMutableRawPointer(mutating: frame.baseAddress), iov_len: frame.count)
            offered += frame.count
        }
        return offered
    }

    /// The next bytes to send, `room` at most: in place if they are contiguous, otherwise gathered in `room`.
    func front(gatheredIn room: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer {
        guard let frame = first else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        let start = frame.baseAddress + sent
        let left = frame.count &- sent
        if rest.isEmpty || left >= room.count {
            return UnsafeRawBufferPointer(start: start, count: Swift.min(left, room.count))
        }
        room.copyMemory(from: UnsafeRawBufferPointer(start: start, count: left))
        var filled = left
        for frame in rest where filled < room.count {
            let count = Swift.min(frame.count, room.count &- filled)
            UnsafeMutableRawBufferPointer(rebasing: room[filled...]).copyMemory(
                from: UnsafeRawBufferPointer(start: frame.baseAddress, count: count))
            filled &+= count
        }
        return UnsafeRawBufferPointer(rebasing: room[..<filled])
    }

    mutating func advance(by count: Int) {
        byteCount &-= count
        sentCount &+= UInt32(truncatingIfNeeded: count)
        guard let frame = first else { return }
        if count < frame.count &- sent {
            sent &+= count
            return
        }
        if rest.isEmpty {
            sent = 0
            first = nil
            return
        }
        var left = count &- (frame.count &- sent)
        var whole = 0
        while whole < rest.count, left >= rest[whole].count {
            left &-= rest[whole].count
            whole &+= 1
        }
        sent = left
        if whole < rest.count {
            first = rest[whole]
            rest.removeFirst(whole + 1)
        } else {
            first = nil
            rest = []
        }
    }
}
