import CLinux
import Glibc
import Reactor

/// A numeric IPv4 address and a port, in the clear or with TLS.
struct LoadAddress {
    let text: String
    /// The TLS settings; nil without TLS.
    var security: TLSClient.Manner?
    private let address: in_addr
    private let port: UInt16

    /// - Throws: `LoadFailure` unless `text` is like `127.0.0.1:6001`, optionally after `ws://` or `wss://`.
    init(_ text: String) throws(LoadFailure) {
        var address = in_addr()
        if text.hasPrefix("wss://") { security = TLSClient.Manner() }
        let text = text.split(separator: "//").last.map(String.init) ?? text
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let port = UInt16(parts[1]), inet_pton(AF_INET, String(parts[0]), &address) == 1 else {
            throw LoadFailure("\(text): an address like 127.0.0.1:6001 is needed")
        }
        self.text = text
        self.address = address
        self.port = port
    }

    /// A non-blocking socket that has begun to connect. If the hub is on the loopback interface, it connects from loopback
    /// address number `source`, since one address has too few ports.
    func connect(source: Int) throws(LoadFailure) -> Int32 {
        let descriptor = cl_stream_socket(AF_INET)
        guard descriptor >= 0 else { throw LoadFailure("socket: \(String(cString: strerror(errno)))") }
        _ = cl_set_option(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        // Closes with a reset: tens of thousands of ports in TIME_WAIT would starve the next run.
        var lingering = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &lingering, socklen_t(MemoryLayout<linger>.size))
        if address.s_addr & 0xFF == 127 {
            _ = cl_set_option(descriptor, Int32(IPPROTO_IP), Self.bindWithoutPort, 1)
            let local = sockaddr_in(in_addr(s_addr: (0x7F00_0001 + UInt32(source)).bigEndian), port: 0)
            guard local.call({ bind(descriptor, $0, $1) }) == 0 else { throw failure("bind", descriptor) }
        }
        let code = sockaddr_in(address, port: port).call { Glibc.connect(descriptor, $0, $1) }
        guard code == 0 || errno == EINPROGRESS else { throw failure("connect", descriptor) }
        return descriptor
    }

    /// IP_BIND_ADDRESS_NO_PORT (ip(7)): the port is chosen at connect, so one port serves several peers.
    private static let bindWithoutPort: Int32 = 24

    private func failure(_ call: String, _ descriptor: Int32) -> LoadFailure {
        let reason = String(cString: strerror(errno))
        close(descriptor)
        return LoadFailure("\(call) \(text): \(reason)")
    }
}

extension sockaddr_in {
    fileprivate init(_ address: in_addr, port: UInt16) {
        self.init()
        sin_family = sa_family_t(AF_INET)
        sin_port = port.bigEndian
        sin_addr = address
    }

    fileprivate func call(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        withUnsafePointer(to: self) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
