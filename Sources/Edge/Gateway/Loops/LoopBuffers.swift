import Glibc
import Reactor

/// Memory that all connections of a loop use, one at a time.
final class LoopBuffers {
    /// For reads, after what a connection holds of an unfinished request.
    let read: UnsafeMutableRawBufferPointer
    let gather: UnsafeMutableBufferPointer<iovec>

    /// Bytes read at a time, beside what a connection holds of an unfinished request.
    static let readRoom = 65_536

    /// - Parameter requestBytesMax: the most that a connection holds of a request.
    init(requestBytesMax: Int) {
        read = .allocate(byteCount: requestBytesMax + Self.readRoom, alignment: 64)
        gather = .allocate(capacity: Socket.gatheredBuffersMax)
    }

    deinit {
        read.deallocate()
        gather.deallocate()
    }
}
