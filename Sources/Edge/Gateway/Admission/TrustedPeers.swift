import Bytes
import HTTP
import Reactor

/// Proxies that are believed about their clients' addresses: the field `X-Forwarded-For`, to which each hop appends the
/// address it got the request from. Anybody may have written what stands left of the first untrusted hop.
///
/// RFC 7239's `Forwarded` is not read: a proxy that sets one field passes the other on unchanged, from anybody.
package struct TrustedPeers: Sendable, Equatable {
    /// Networks of trusted proxies, at most `rangesMax`.
    package var ranges: [AddressRange]
    /// Whether peers on unix-domain sockets are trusted.
    package var includesUnix: Bool

    /// Trusts no peer by default.
    package init(_ ranges: [AddressRange] = [], includesUnix: Bool = false) {
        self.ranges = ranges
        self.includesUnix = includesUnix
    }

    /// The most ranges.
    package static let rangesMax = 256

    /// Whether this peer's word on the client's address is taken.
    package func contains(_ peer: PeerAddress) -> Bool {
        peer == .unix ? includesUnix : ranges.contains { $0.contains(peer) }
    }

    /// The client for which a trusted peer sends this request; the peer itself where it does not say, or not clearly.
    func client(of request: ParsedRequest, from peer: PeerAddress) -> PeerAddress {
        var values: [UnsafeRawBufferPointer] = []
        var index = 0
        while let value = request.field("x-forwarded-for", from: &index) { values.append(value) }
        return client(values, from: peer)
    }

    /// The client by the field's values in order; several values are one list (RFC 9110 §5.3).
    func client(_ values: [UnsafeRawBufferPointer], from peer: PeerAddress) -> PeerAddress {
        var client = peer
        for value in values.reversed() {
            var end = value.count
            while end > 0 {
                var start = end
                while start > 0, value[start &- 1] != UInt8(ascii: ",") { start &-= 1 }
                let member = value.part(start..<end).trimmingBlanks
                end = max(0, start &- 1)
                if member.count == 0 { continue }
                guard let address = Self.address(member) else { return peer }
                client = address
                if !contains(address) { return client }
            }
        }
        return client
    }

    /// An address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
    private static func address(_ member: UnsafeRawBufferPointer) -> PeerAddress? {
        var text = member
        if member[0] == UInt8(ascii: "[") {
            guard let end = member.firstIndex(of: UInt8(ascii: "]"), from: 1) else { return nil }
            guard isPort(member.part(end &+ 1..<member.count)) else { return nil }
            text = member.part(1..<end)
            guard text.firstIndex(of: UInt8(ascii: ":"), from: 0) != nil else { return nil }
        } else if let colon = member.firstIndex(of: UInt8(ascii: ":"), from: 0),
            member.firstIndex(of: UInt8(ascii: ":"), from: colon &+ 1) == nil
        {
            guard isPort(member.part(colon..<member.count)) else { return nil }
            text = member.part(0..<colon)
        }
        // `::` is nobody's address, and stands for unix-domain sockets here.
        guard let address = PeerAddress(text), address != .unix else { return nil }
        return address
    }

    /// Nothing, or a colon and a port number.
    private static func isPort(_ text: UnsafeRawBufferPointer) -> Bool {
        guard text.count > 0 else { return true }
        guard text[0] == UInt8(ascii: ":"), let port = text.part(1..<text.count).decimalValue else { return false }
        return port <= UInt16.max
    }
}
