import Glibc

/// A TCP connection of a client that has all the time in the world, but ends its waiting when asked to stop.
final class ClientSocket {
    /// Why there is nothing to read.
    enum Pause: Error {
        /// Nothing came in time.
        case timeout
        case stopped
        /// The peer closed, or the connection broke; in words.
        case closed(String)
    }

    private let descriptor: Int32
    private let stop: Latch

    /// Connects to the first of the host's addresses that answers.
    init(_ address: HubAddress, stop: Latch) throws(Pause) {
        self.stop = stop
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
                if connect(candidate, entry.ai_addr, entry.ai_addrlen) == 0 {
                    descriptor = candidate
                    _ = fcntl(candidate, F_SETFL, O_NONBLOCK)
                    return
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

    /// Sends all bytes.
    func send(_ bytes: UnsafeRawBufferPointer) throws(Pause) {
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
    /// - Returns: how many, one at least.
    func receive(into buffer: UnsafeMutableRawBufferPointer, timeout: Duration) throws(Pause) -> Int {
        while true {
            try wait(for: POLLIN, timeout: timeout)
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
