import Clock
import Glibc
import Reactor

/// A client's TCP connection that blocks, but stops waiting when the command is stopped.
final class ClientSocket {
    /// Why nothing was read.
    enum Pause: Error {
        case timeout
        case stopped
        /// The peer closed, or the connection broke; in words.
        case closed(String)
        /// A retry would fail, too; in words.
        case hopeless(String)
        /// The hub's certificate is not good; in words.
        case untrusted(String)
    }

    private let descriptor: Int32
    private let stop: Latch
    /// Nil without TLS.
    private var secured: SecuredStream?

    /// Connects to the first of the host's addresses that answers.
    ///
    /// - Parameter tls: verifies the certificate, for an address with TLS.
    init(_ address: HubAddress, tls: TLSClient? = nil, stop: Latch) throws(Pause) {
        descriptor = try Self.connect(address)
        self.stop = stop
        if let tls { try secure(tls, address) }
    }

    private static func connect(_ address: HubAddress) throws(Pause) -> Int32 {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(address.host, String(address.port), &hints, &list)
        guard code == 0 else { throw .closed("\(address.host): \(String(cString: gai_strerror(code)))") }
        defer { freeaddrinfo(list) }
        var reason = "no address"
        var next = list
        while let entry = next?.pointee {
            let candidate = socket(entry.ai_family, entry.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), entry.ai_protocol)
            if candidate >= 0 {
                if Glibc.connect(candidate, entry.ai_addr, entry.ai_addrlen) == 0 {
                    _ = fcntl(candidate, F_SETFL, O_NONBLOCK)
                    return candidate
                }
                reason = String(cString: strerror(errno))
                close(candidate)
            }
            next = entry.ai_next
        }
        throw .closed("\(address.authority): \(reason)")
    }

    deinit {
        close(descriptor)
    }

    /// Whether a port speaks TLS: tries a handshake without verifying the certificate.
    static func speaksTLS(_ address: HubAddress, stop: Latch) -> Bool {
        guard let client = try? TLSClient() else { return false }
        return (try? ClientSocket(address, tls: client, stop: stop)) != nil
    }

    private func secure(_ client: TLSClient, _ address: HubAddress) throws(Pause) {
        let secured: SecuredStream
        do throws(TLSError) {
            secured = try SecuredStream(client, host: address.host)
        } catch {
            throw .closed("\(error)")
        }
        guard secured.session.start(descriptor) != .broken else { throw .closed("TLS: the hello was not taken") }
        while !secured.session.isEstablished {
            do throws(Pause) {
                try wait(for: POLLIN, timeout: .seconds(10))
                if try !secured.fill(descriptor) { throw .closed("TLS: the hub closed the connection") }
            } catch .timeout {
                throw .closed("TLS: the hub did not answer; use ws:// where the port has no TLS")
            } catch .closed(let reason) where !secured.session.hasBegun {
                throw .closed("\(reason); use ws:// where the port has no TLS")
            }
        }
        self.secured = secured
    }

    func send(_ bytes: UnsafeRawBufferPointer) throws(Pause) {
        guard let session = secured?.session else { return try sendPlain(bytes) }
        for start in stride(from: 0, to: bytes.count, by: TLSWire.recordBytes) {
            let end = min(bytes.count, start + TLSWire.recordBytes)
            guard session.seal(UnsafeRawBufferPointer(rebasing: bytes[start..<end])) else {
                throw .closed("TLS: the connection broke")
            }
            var sent = session.send(descriptor)
            while sent == .blocked {
                try wait(for: POLLOUT, timeout: .seconds(10))
                sent = session.send(descriptor)
            }
            guard sent == .all else { throw .closed("TLS: the connection broke") }
        }
    }

    private func sendPlain(_ bytes: UnsafeRawBufferPointer) throws(Pause) {
        var sent = 0
        while sent < bytes.count {
            let count = Glibc.send(
                descriptor, bytes.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
            if count > 0 {
                sent += count
            } else if errno == EAGAIN {
                try wait(for: POLLOUT, timeout: .seconds(10))
            } else if errno != EINTR {
                throw .closed(String(cString: strerror(errno)))
            }
        }
    }

    /// Waits for bytes and puts some into `buffer`.
    ///
    /// - Returns: how many, at least one.
    func receive(into buffer: UnsafeMutableRawBufferPointer, timeout: Duration) throws(Pause) -> Int {
        while true {
            if let count = secured?.take(into: buffer), count > 0 { return count }
            try wait(for: POLLIN, timeout: timeout)
            if let secured {
                guard try secured.fill(descriptor) else { throw .closed("the hub closed the connection") }
                continue
            }
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return count }
            if count == 0 { throw .closed("the hub closed the connection") }
            if errno != EAGAIN, errno != EINTR { throw .closed(String(cString: strerror(errno))) }
        }
    }

    private func wait(for events: Int32, timeout: Duration) throws(Pause) {
        var entries = [
            pollfd(fd: descriptor, events: Int16(events), revents: 0),
            pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        let count = poll(&entries, 2, Int32(clamping: Int64(timeout / .milliseconds(1))))
        if stop.isSet { throw .stopped }
        if count == 0 { throw .timeout }
    }
}
