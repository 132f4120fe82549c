import Bytes
import HTTP
import Reactor
import TestSupport
import Testing

@testable import Gateway

@Suite(.timeLimit(.minutes(15))) struct TrustedPeersTests {
    private let trusted = TrustedPeers(
        ["10.0.0.0/8", "fd00::/8"].compactMap { AddressRange($0) }, includesUnix: true)

    private func client(_ values: [String], from peer: String? = "10.0.0.1") throws -> PeerAddress {
        var fields = ""
        for value in values { fields += "X-Forwarded-For: \(value)\r\n" }
        var bytes = Array("GET / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n".utf8)
        let from = try peer.map { try #require(PeerAddress($0)) } ?? .unix
        return try bytes.withUnsafeMutableBytes { buffer in
            var parser = RequestParser()
            return trusted.client(of: try #require(try parser.parse(buffer)), from: from)
        }
    }

    @Test(
        arguments: [
            (["203.0.113.7"], "203.0.113.7"), (["203.0.113.7:4711"], "203.0.113.7"),
            (["2001:db8::7"], "2001:db8::7"), (["[2001:db8::7]"], "2001:db8::7"),
            (["[2001:db8::7]:4711"], "2001:db8::7"), (["::ffff:203.0.113.7"], "203.0.113.7"),
            // Entries written by the client itself are on the left.
            (["1.2.3.4, 203.0.113.7"], "203.0.113.7"), (["evil, 203.0.113.7"], "203.0.113.7"),
            // Proxies behind proxies.
            (["203.0.113.7, 10.0.0.2, fd00::2"], "203.0.113.7"), (["1.2.3.4, 203.0.113.7 ,10.0.0.2"], "203.0.113.7"),
            (["1.2.3.4", "203.0.113.7", "10.0.0.2"], "203.0.113.7"), (["203.0.113.7,", ", 10.0.0.2 ,"], "203.0.113.7"),
            // All of them are trusted: the farthest counts.
            (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ] as [([String], String)])
    func theRightmostThatIsNotTrustedCounts(_ values: [String], _ expected: String) throws {
        #expect(try client(values) == PeerAddress(expected))
        #expect(try client(values, from: nil) == PeerAddress(expected), "also behind a unix-domain socket")
    }

    @Test(
        arguments: [
            [], [""], [","], ["unknown"], ["_hidden"], ["203.0.113.7:"], ["203.0.113.7:port"], ["203.0.113.7:65536"],
            ["[203.0.113.7]"], ["[2001:db8::7"], ["[2001:db8::7]x"], ["2001:db8::7]"], ["::"], ["\"203.0.113.7\""],
            ["for=203.0.113.7"], ["203.0.113.7 10.0.0.2"], ["203.0.113.7, x, 10.0.0.2"], ["203.0.113.7, unix"],
            [String(repeating: ":", count: 5_000)], [String(repeating: ",", count: 5_000)],
        ])
    func malformedForwardingCountsForThePeer(_ values: [String]) throws {
        #expect(try client(values) == PeerAddress("10.0.0.1"))
    }

    @Test func neverTraps() throws {
        let letters = Array("0123456789abcf.:,[] unix%".utf8)
        for seed in 0..<20_000 as Range<UInt64> {
            var random = SeededRandom(seed: seed)
            let count = Int.random(in: 0...40, using: &random)
            let bytes = (0..<count).compactMap { _ in letters.randomElement(using: &random) }
            _ = bytes.withUnsafeBytes { trusted.client([$0, $0], from: .unix) }
        }
    }
}
