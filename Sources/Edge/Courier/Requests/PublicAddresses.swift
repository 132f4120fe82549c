import Reactor

/// The addresses that a webhook may be sent to: those of the public internet.
///
/// Anyone who may set up webhooks chooses the URL, and the owner of its name chooses the address. The hub can reach what
/// outsiders cannot (cloud metadata, databases, its own operations page). So the address being connected to is checked, not
/// the name.
struct PublicAddresses {
    /// Nil if a range could not be parsed. What it would refuse is then unknown, so no address counts as public.
    private let ranges: (special: [AddressRange], globalIPv6: AddressRange)?

    /// - Parameters:
    ///   - special: IPv4 and IPv6 ranges that are not public.
    ///   - globalIPv6: the range of public IPv6 addresses.
    init(special: [String], globalIPv6: String) {
        let read = special.compactMap { AddressRange($0) }
        ranges = AddressRange(globalIPv6).flatMap { read.count == special.count ? (read, $0) : nil }
    }

    func contains(_ address: PeerAddress) -> Bool {
        guard let ranges, address.isIPv4 || ranges.globalIPv6.contains(address) else { return false }
        return !ranges.special.contains { $0.contains(address) }
    }

    /// Ranges that are not global in IANA's special-purpose registries (RFC 6890), and multicast. An IPv4-mapped IPv6
    /// address is checked as its IPv4 address.
    static let special = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        // IPv6: Teredo and similar, documentation, 6to4.
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    ]

    /// All IPv6 addresses allocated to the public (RFC 4291 §2.4). It excludes NAT64 addresses and those that embed an IPv4
    /// address.
    static let globalIPv6 = "2000::/3"

    private static let all = PublicAddresses(special: special, globalIPv6: globalIPv6)

    static func contains(_ address: PeerAddress) -> Bool { all.contains(address) }
}
