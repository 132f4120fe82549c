import Reactor

/// Which addresses a webhook may be sent to: those of the public internet.
///
/// A URL comes from whoever may set up webhooks, and its name resolves to what its owner likes; the hub stands where
/// others cannot reach (cloud metadata, databases, its own operations page). So the address that is connected to is judged,
/// not the name.
enum PublicAddresses {
    /// What is not global in the IANA's registries of special-purpose addresses (RFC 6890), and multicast. An IPv4 address
    /// mapped into IPv6 is judged as the IPv4 address that it is.
    private static let special: [AddressRange] = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        // Of IPv6: Teredo and its like, documentation, 6to4.
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    ].compactMap { AddressRange($0) }

    /// All of IPv6 that is given out to anybody (RFC 4291 §2.4): neither NAT64's addresses nor those that hold an IPv4
    /// address are in it.
    private static let globalIPv6 = AddressRange("2000::/3")

    /// Whether the address is of the public internet.
    static func contains(_ address: PeerAddress) -> Bool {
        guard address.isIPv4 || globalIPv6?.contains(address) == true else { return false }
        return !special.contains { $0.contains(address) }
    }
}
