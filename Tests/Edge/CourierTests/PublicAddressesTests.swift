import Glibc
import Reactor
import Testing

@testable import Courier

@Suite(.timeLimit(.minutes(15)))
struct PublicAddressesTests {
    @Test(
        arguments: [
            "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
            "127.255.255.254", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255",
            "192.0.2.1", "192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255",
            "198.51.100.1", "203.0.113.1", "224.0.0.0", "239.255.255.255", "240.0.0.1", "255.255.255.255",
            "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1",
            "64:ff9b:1::1", "100::1", "2001::1", "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1",
            "3fff::1", "4000::1", "5f00::1", "fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1",
        ])
    func othersAreRefused(_ text: String) throws {
        #expect(!PublicAddresses.contains(try #require(PeerAddress(text))))
    }

    @Test(
        arguments: [
            "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
            "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.88.98.1",
            "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.112.1", "223.255.255.255",
            "::ffff:8.8.8.8", "2000::1", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111",
            "2a00::1", "3ffe::1",
        ])
    func thePublicInternetIsTaken(_ text: String) throws {
        #expect(PublicAddresses.contains(try #require(PeerAddress(text))))
    }

    /// A range that cannot be read could not be refused, so no address is public then.
    @Test(arguments: ["10.0.0.0/33", "10.0.0/8", "", "fe80::/129", "localhost", "10.0.0.0/", "10.0.0.0/8 "])
    func aRangeThatCannotBeReadRefusesAll(_ range: String) throws {
        let address = try #require(PeerAddress("8.8.8.8"))
        let network = try #require(PeerAddress("2606:4700::1111"))
        let sound = PublicAddresses(special: ["10.0.0.0/8"], globalIPv6: "2000::/3")
        #expect(sound.contains(address) && sound.contains(network))
        for broken in [
            PublicAddresses(special: ["10.0.0.0/8", range], globalIPv6: "2000::/3"),
            PublicAddresses(special: ["10.0.0.0/8"], globalIPv6: range),
        ] {
            #expect(!broken.contains(address) && !broken.contains(network))
        }
    }

    @Test func everyRangeIsRead() {
        for range in PublicAddresses.special + [PublicAddresses.globalIPv6] { #expect(AddressRange(range) != nil) }
    }

    @Test(arguments: [AF_UNIX, AF_UNSPEC, AF_VSOCK, AF_PACKET, 255])
    func anAddressOfAnotherFamilyIsNone(_ family: Int32) {
        var storage = sockaddr_storage()
        storage.ss_family = sa_family_t(family)
        #expect(PeerAddress(inet: storage) == nil)
    }

    @Test(
        arguments: [
            ("http://10.0.0.5/x", true), ("https://user:pw@127.0.0.1:8080", true), ("http://[::1]:80/", true),
            ("http://[fd00::1]", true), ("http://LocalHost:9", true), ("http://8.8.8.8", false),
            ("http://[2606:4700::1]:1/", false), ("https://backend.example.org", false),
            ("http://10.0.0.5.example", false),
        ])
    func whatAURLNamesIsJudgedBeforeAnythingIsSent(_ url: String, _ isPrivate: Bool) {
        #expect(WebhookEndpoint(url: url, kinds: .presence).isLiterallyPrivate == isPrivate)
    }
}
