import CLinux
import Glibc

/// A peer's address, without its port: IPv6, or IPv4 mapped into it.
public struct PeerAddress: Hashable, Sendable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    /// Peers on a unix-domain socket, which have no address: `::`, which is nobody's.
    public static let unix = PeerAddress(high: 0, low: 0)

    /// Whether it is this machine's own: `::1`, or one of 127.0.0.0/8.
    package var isLoopback: Bool { high == 0 && (low == 1 || low >> 24 == 0xff_ff7f) }

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The address in a socket address of any family.
    init(_ storage: sockaddr_storage) {
        let family = Int32(storage.ss_family)
        self = withUnsafeBytes(of: storage) { bytes in
            switch family {
            case AF_INET6:
                // sockaddr_in6: family 2, port 2, flow 4, address 16.
                PeerAddress(bytes, at: 8)
            case AF_INET:
                // sockaddr_in: family 2, port 2, address 4.
                PeerAddress(v4: UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self)))
            default: .unix
            }
        }
    }

    /// The address in a socket address of IPv4 or IPv6; nil for another family.
    package init?(inet storage: sockaddr_storage) {
        guard [AF_INET, AF_INET6].contains(Int32(storage.ss_family)) else { return nil }
        self.init(storage)
    }

    /// Reads an address as people write it, IPv4 or IPv6, without brackets, port or zone; nil for other text.
    public init?(_ text: UnsafeRawBufferPointer) {
        // The longest has 45 bytes; inet_pton needs a zero after it.
        guard text.count > 0, text.count <= Self.textBytesMax, !text.contains(0) else { return nil }
        let found: PeerAddress? = withUnsafeTemporaryAllocation(byteCount: Self.textBytesMax + 17, alignment: 8) {
            room in
            room.copyMemory(from: text)
            room[text.count] = 0
            let address = UnsafeMutableRawBufferPointer(rebasing: room[(Self.textBytesMax + 1)...])
            guard let name = room.baseAddress?.assumingMemoryBound(to: CChar.self) else { return nil }
            if inet_pton(AF_INET, name, address.baseAddress) == 1 {
                return PeerAddress(v4: UInt32(bigEndian: address.loadUnaligned(as: UInt32.self)))
            }
            guard inet_pton(AF_INET6, name, address.baseAddress) == 1 else { return nil }
            return PeerAddress(UnsafeRawBufferPointer(address), at: 0)
        }
        guard let found else { return nil }
        self = found
    }

    /// Reads an address from a string.
    public init?(_ text: String) {
        guard let address = Array(text.utf8).withUnsafeBytes({ PeerAddress($0) }) else { return nil }
        self = address
    }

    /// Mapped as ::ffff:a.b.c.d.
    private init(v4 address: UInt32) {
        self.init(high: 0, low: 0xffff_0000_0000 | UInt64(address))
    }

    private init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        self.init(
            high: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)))
    }

    private static let textBytesMax = 45

    /// As people write it; `unix` where there is none.
    public var description: String {
        guard self != .unix else { return "unix" }
        var text = [CChar](repeating: 0, count: Self.textBytesMax + 1)
        if isIPv4 {
            var address = in_addr(s_addr: UInt32(truncatingIfNeeded: low).bigEndian)
            inet_ntop(AF_INET, &address, &text, socklen_t(text.count))
        } else {
            var address = (high.bigEndian, low.bigEndian)
            inet_ntop(AF_INET6, &address, &text, socklen_t(text.count))
        }
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// IPv4, mapped or not.
    public var isIPv4: Bool { high == 0 && low >> 32 == 0xffff }

    /// A unix-domain socket's, 127.0.0.0/8 or ::1.
    public var isOfThisMachine: Bool { isLoopback || self == .unix }

    /// What identifies one peer: an IPv4 address, or the IPv6 network (/64) of one household or machine (RFC 6177).
    public var network: PeerAddress { high == 0 ? self : PeerAddress(high: high, low: 0) }

    static func port(of storage: sockaddr_storage) -> UInt16 {
        withUnsafeBytes(of: storage) { UInt16(bigEndian: $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self)) }
    }
}

/// All addresses with a common prefix, such as 10.0.0.0/8 (RFC 4632).
public struct AddressRange: Hashable, Sendable {
    private let first: PeerAddress
    /// Bits of 128.
    private let length: Int

    /// Reads `10.0.0.0/8`, `fd00::/8`, or one address; nil for other text.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let address = PeerAddress(String(parts[0])) else { return nil }
        let (before, bits) = address.isIPv4 && !parts[0].contains(":") ? (96, 32) : (0, 128)
        var length = bits
        if parts.count == 2 {
            guard parts[1].utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }),
                let given = Int(parts[1]), given <= bits
            else { return nil }
            length = given
        }
        self.length = before + length
        first = Self.beginning(of: address, self.length)
    }

    /// Whether the address is in the range.
    public func contains(_ address: PeerAddress) -> Bool {
        Self.beginning(of: address, length) == first
    }

    private static func beginning(of address: PeerAddress, _ length: Int) -> PeerAddress {
        // Swift's shifts give zero beyond 63.
        let high = length >= 64 ? UInt64.max : ~(UInt64.max >> UInt64(length))
        let low = length <= 64 ? 0 : ~(UInt64.max >> UInt64(length - 64))
        return PeerAddress(high: address.high & high, low: address.low & low)
    }
}
