import Glibc

extension ListenAddress {
    /// Looks whether a hub could listen here now, before long work is done for nothing.
    ///
    /// - Throws: a failure that says what is in the way.
    func checkFree() throws(Failure) {
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &list)
        guard code == 0, let entry = list?.pointee else {
            throw Failure("listen \(self): \(host) is no address of this machine", status: .configuration)
        }
        defer { freeaddrinfo(list) }
        let descriptor = socket(entry.ai_family, entry.ai_socktype, entry.ai_protocol)
        guard descriptor >= 0 else { throw Failure("listen \(self): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        guard bind(descriptor, entry.ai_addr, entry.ai_addrlen) == 0, Glibc.listen(descriptor, 1) == 0 else {
            throw inTheWay(errno)
        }
    }

    /// The failure for an error of bind(2) or listen(2).
    func inTheWay(_ code: Int32) -> Failure {
        switch code {
        case EADDRINUSE:
            Failure("listen \(self): the port is taken by another program; stop it, or choose another with --listen")
        case EADDRNOTAVAIL:
            Failure("listen \(self): \(host) is no address of this machine", status: .configuration)
        case EACCES:
            Failure("listen \(self): this user may not listen on port \(port); choose one above 1023 with --listen")
        default:
            Failure("listen \(self): \(String(cString: strerror(code)))")
        }
    }
}
