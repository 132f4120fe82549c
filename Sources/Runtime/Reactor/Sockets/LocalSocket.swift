import CLinux
import Glibc

/// Connections to processes of this machine, by unix-domain sockets (unix(7)): bytes, and descriptors with them.
public enum LocalSocket {
    /// The other end of a connection, as the kernel knows it.
    public struct Peer: Equatable, Sendable {
        /// Its effective user when it connected, or listened.
        public let user: uid_t
        /// Its process. At a connection to a socket that several processes have, it is the last that called listen(2):
        /// see `tellsSenders`.
        public let process: pid_t

        /// Whether it may do what this process may: the same user, or root.
        public var isTrusted: Bool { user == geteuid() || user == 0 }
    }

    /// A non-blocking connection to the socket at `path`; nil with `errno` where there is none.
    public static func connect(_ path: String) -> Int32? {
        guard var address = SocketFile.address(of: path) else {
            errno = ENAMETOOLONG
            return nil
        }
        let descriptor = cl_stream_socket(AF_UNIX)
        guard descriptor >= 0 else { return nil }
        guard SocketFile.withSocketAddress(&address, { Glibc.connect(descriptor, $0, $1) }) == 0 else {
            let code = errno
            Socket.close(descriptor)
            errno = code
            return nil
        }
        return descriptor
    }

    /// Who is at the other end.
    public static func peer(_ descriptor: Int32) -> Peer? {
        var (user, process) = (uid_t.max, pid_t(0))
        return cl_peer(descriptor, &user, &process) == 0 ? Peer(user: user, process: process) : nil
    }

    /// From now on, what is received tells which process sent it.
    public static func tellsSenders(_ descriptor: Int32) {
        _ = cl_set_option(descriptor, SOL_SOCKET, SO_PASSCRED, 1)
    }

    /// Sends a short text with descriptors, all of it or nothing. False where the peer has gone or reads nothing.
    public static func send(_ text: String, _ descriptors: [Int32] = [], to descriptor: Int32) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            if descriptors.isEmpty {
                return Socket.send(descriptor, UnsafeRawBufferPointer(bytes)) == .bytes(bytes.count)
            }
            return cl_send_descriptors(descriptor, bytes.baseAddress, bytes.count, descriptors, descriptors.count)
                == bytes.count
        }
    }

    /// What has come.
    public enum Received: Equatable, Sendable {
        /// The sender is nil unless `tellsSenders` was called.
        case bytes([UInt8], descriptors: [Int32], sender: pid_t?)
        /// Nothing now.
        case nothing
        /// The peer has ended the connection, or it is broken.
        case end
    }

    /// Reads what has come. The caller closes the descriptors.
    public static func receive(_ descriptor: Int32, atMost bytesMax: Int) -> Received {
        var descriptors = [Int32](repeating: -1, count: Int(CL_DESCRIPTORS_MAX))
        var (descriptorCount, count, code, sender) = (0, 0, Int32(0), pid_t(0))
        let bytes = [UInt8](unsafeUninitializedCapacity: bytesMax) { room, filled in
            count = cl_receive_descriptors(
                descriptor, room.baseAddress, bytesMax, &descriptors, &descriptorCount, &sender)
            code = errno
            filled = max(0, count)
        }
        if count > 0 {
            return .bytes(
                bytes, descriptors: Array(descriptors[..<descriptorCount]), sender: sender > 0 ? sender : nil)
        }
        return count < 0 && code == EAGAIN ? .nothing : .end
    }
}
