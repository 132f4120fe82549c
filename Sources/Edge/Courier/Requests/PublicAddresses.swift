import Reactor

/// Which addresses a webhook may be sent to: those of the public internet.
///
/// A URL comes from whoever may set up webhooks, and its name resolves to what its owner likes; the hub stands where
/// others cannot reach (cloud metadata, databases, its own operations page). So the address that is connected to is judged,
/// not the name.
struct PublicAddresses {
    /// Nil where a range could not be read: what it would refuse is not known, so no address is public.
    private let ranges: (special: [AddressRange], globalIPv6: AddressRange)?

    /// - Parameters:
    ///   - special: ranges that are not public, of IPv4 and of IPv6.
    ///   - globalIPv6: the range in which IPv6 addresses are public.
    init(special: [String], globalIPv6: String) {
        let read = special.compactMap { AddressRange($0) }
        ranges = AddressRange(globalIPv6).flatMap { read.count == special.count ? (read, $0) : nil }
    }

    /// Whether the address is of the public internet.
    func contains(_ address: PeerAddress) -> Bool {
        guard let ranges, address.isIPv4 || ranges.globalIPv6.contains(address) else { return false }
        return !ranges.special.contains { $0.contains(address) }
    }

    /// What is not global in the IANA's registries of special-purpose addresses (RFC 6890), and multicast. An IPv4 address
    /// mapped into IPv6 is judged as the IPv4 address that it is.
    static let special = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        // Of IPv6: Teredo and its like, documentation, 6to4.
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    ]

    /// All of IPv6 that is given out to anybody (RFC 4291 §2.4): neither NAT64's addresses nor those that hold an IPv4
    /// address are in it.
    static let globalIPv6 = "2000::/3"

    private static let all = PublicAddresses(special: special, globalIPv6: globalIPv6)

    /// Whether the address is of the public internet.
    static func contains(_ address: PeerAddress) -> Bool { all.contains(address) }
}
