import TestSupport
import Testing

@testable import Reactor

@Suite(.timeLimit(.minutes(15))) struct PeerAddressTests {
    @Test func readsBothFamilies() throws {
        #expect(PeerAddress("1.2.3.4") == PeerAddress(high: 0, low: 0xffff_0102_0304))
        #expect(PeerAddress("::ffff:1.2.3.4") == PeerAddress("1.2.3.4"))
        #expect(PeerAddress("2001:db8::5") == PeerAddress(high: 0x2001_0db8_0000_0000, low: 5))
        #expect(PeerAddress("::1")?.isOfThisMachine == true)
        #expect(PeerAddress("127.9.9.9")?.isOfThisMachine == true)
        #expect(PeerAddress("128.0.0.1")?.isOfThisMachine == false)
        #expect(PeerAddress("1.2.3.4")?.isIPv4 == true)
        #expect(PeerAddress("2001:db8::5")?.isIPv4 == false)
    }

    @Test(arguments: ["1.2.3.4", "255.0.0.1", "2001:db8::5", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"])
    func isWrittenAsItIsRead(_ text: String) {
        #expect(PeerAddress(text)?.description == text)
        #expect(PeerAddress.unix.description == "unix")
    }

    @Test(
        arguments: [
            "", " ", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4x", "[::1]", "::1%eth0", ":::", "1.2.3.4:5",
            "unknown",
            "_hidden", "1.2.3.4\0", "::\u{e9}", String(repeating: "1", count: 46), String(repeating: ":", count: 4_000),
        ])
    func textsThatAreNoAddressAreRefused(_ text: String) {
        #expect(PeerAddress(text) == nil)
    }

    @Test func theLongestIsRead() {
        let text = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"
        #expect(text.utf8.count == 45)
        #expect(PeerAddress(text) == PeerAddress(high: .max, low: .max))
    }

    /// An owner of a network has all of its addresses.
    @Test func ofIPv6TheNetworkCounts() throws {
        let one = try #require(PeerAddress("2001:db8:1:2::1"))
        let two = try #require(PeerAddress("2001:db8:1:2:ffff::1"))
        let other = try #require(PeerAddress("2001:db8:1:3::1"))
        #expect(one.network == two.network)
        #expect(one.network != other.network)
        #expect(PeerAddress("1.2.3.4")?.network == PeerAddress("1.2.3.4"))
        #expect(PeerAddress("1.2.3.4")?.network != PeerAddress("1.2.3.5")?.network)
    }

    @Test(
        arguments: [
            ("10.0.0.0/8", "10.255.255.255", true), ("10.0.0.0/8", "11.0.0.0", false), ("10.1.2.3/8", "10.9.9.9", true),
            ("192.0.2.1", "192.0.2.1", true), ("192.0.2.1", "192.0.2.2", false), ("192.0.2.0/31", "192.0.2.1", true),
            ("0.0.0.0/0", "1.2.3.4", true), ("0.0.0.0/0", "2001:db8::1", false), ("::/0", "2001:db8::1", true),
            ("fd00::/8", "fdff::1", true), ("fd00::/8", "fe00::1", false), ("2001:db8::/33", "2001:db8:8000::", false),
            ("2001:db8::/65", "2001:db8::7fff:0:0:0", true), ("2001:db8::/65", "2001:db8:0:0:8000::", false),
            ("2001:db8::1/128", "2001:db8::1", true), ("2001:db8::1/128", "2001:db8::2", false),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true), ("2001:db8::/64", "2001:db8::1", true),
        ])
    func rangesHoldWhatBeginsAlike(_ range: String, _ address: String, _ isIn: Bool) throws {
        #expect(try #require(AddressRange(range)).contains(try #require(PeerAddress(address))) == isIn)
    }

    @Test(arguments: [
        "", "/", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.0/+8", "x/8",
    ])
    func badRangesAreNone(_ text: String) {
        #expect(AddressRange(text) == nil)
    }

    @Test func neverTraps() {
        for seed in 0..<20_000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let bytes = random.bytes(Int.random(in: 0...60, using: &random))
            _ = bytes.withUnsafeBytes { PeerAddress($0) }
            _ = AddressRange(String(decoding: bytes, as: UTF8.self))
        }
    }
}
