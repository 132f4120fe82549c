import CLinux
import Clock
import Glibc
import Reactor

/// Reads of a socket with the times at which the kernel got what it reads.
///
/// A thousand devices share this program's thread. In figures none of them should wait for the others.
enum StampedSocket {
    /// `SO_TIMESTAMPNS`, and the type of what it gives.
    private static let option: Int32 = 35

    /// From now on the kernel keeps when bytes come.
    static func begin(_ descriptor: Int32) {
        _ = cl_set_option(descriptor, SOL_SOCKET, option, 1)
    }

    /// Receives what has come, and when the last of it came: now, where the kernel does not say.
    static func receive(
        _ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer
    ) -> (result: TransferResult, came: Instant) {
        /// The header and the one control message that is asked for.
        var control = (header: cmsghdr(), time: timespec())
        var part = iovec(iov_base: buffer.baseAddress, iov_len: buffer.count)
        let (count, hasTime) = withUnsafeMutablePointer(to: &part) { part in
            withUnsafeMutableBytes(of: &control) { control in
                var message = msghdr()
                (message.msg_iov, message.msg_iovlen) = (part, 1)
                (message.msg_control, message.msg_controllen) = (control.baseAddress, control.count)
                return (recvmsg(descriptor, &message, 0), message.msg_controllen == control.count)
            }
        }
        // In this order: who is interrupted between them finds a time that is too late, not one that is too early.
        var wall = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        let now = Instant.read()
        switch count {
        case 0: return (.endOfStream, now)
        case 1...: break
        default: return (errno == EAGAIN ? .wouldBlock : .failed(errno), now)
        }
        guard hasTime, control.header.cmsg_level == SOL_SOCKET, control.header.cmsg_type == option else {
            return (.bytes(count), now)
        }
        return (.bytes(count), Self.time(control.time, at: now, wall))
    }

    /// That time of the wall clock by the other clock, both read at one moment. The wall clock may have been set back since.
    static func time(_ time: timespec, at now: Instant, _ wall: timespec) -> Instant {
        let (then, wall) = (nanoseconds(time), nanoseconds(wall))
        return Instant(nanoseconds: now.nanoseconds &- (wall > then ? wall - then : 0))
    }

    private static func nanoseconds(_ time: timespec) -> UInt64 {
        UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
