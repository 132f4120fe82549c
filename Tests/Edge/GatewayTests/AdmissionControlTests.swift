import Clock
import Reactor
import TestSupport
import Testing

@testable import Gateway

@Suite(.timeLimit(.minutes(15))) struct AdmissionControlTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func limits(_ change: (inout AdmissionLimits) -> Void) -> AdmissionLimits {
        var limits = AdmissionLimits()
        limits.addressConnectsPerSecond = 0
        limits.addressConnectsWaitingMax = 0
        change(&limits)
        return limits
    }

    private func address(_ text: String) throws -> PeerAddress { try #require(PeerAddress(text)) }

    private func isWelcome(_ decision: AdmissionControl.Decision) -> Bool {
        if case .welcome = decision { return true }
        return false
    }

    @Test func dealsToTheLoopWithTheFewest() throws {
        let admission = AdmissionControl(loops: 2, limits: limits { _ in })
        let peer = try address("192.0.2.1")
        #expect(admission.arrived(from: peer, at: start) == .welcome(loop: 0))
        #expect(admission.arrived(from: peer, at: start) == .welcome(loop: 1))
        admission.left(peer, loop: 1, wasRefused: false)
        #expect(admission.arrived(from: peer, at: start) == .welcome(loop: 1))
        #expect(admission.total == 2)
    }

    @Test func anAddressIsBoundedAndThenShutOut() throws {
        let limits = limits {
            $0.connectionsPerAddressMax = 2
            $0.refusalsPerAddressMax = 1
        }
        let admission = AdmissionControl(loops: 1, limits: limits)
        // One household's network is one address.
        let peers = try ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"].map { try address($0) }
        #expect(admission.arrived(from: peers[0], at: start) == .welcome(loop: 0))
        #expect(admission.arrived(from: peers[1], at: start) == .welcome(loop: 0))
        #expect(admission.arrived(from: peers[2], at: start) == .refused(loop: 0, .addressFull))
        #expect(admission.arrived(from: peers[3], at: start) == .shut(.addressFull))
        #expect(isWelcome(admission.arrived(from: try address("2001:db8:0:1::1"), at: start)))
        admission.left(peers[2], loop: 0, wasRefused: true)
        #expect(admission.arrived(from: peers[2], at: start) == .refused(loop: 0, .addressFull), "still full")
        admission.left(peers[2], loop: 0, wasRefused: true)
        admission.left(peers[0], loop: 0, wasRefused: false)
        #expect(admission.arrived(from: peers[2], at: start) == .welcome(loop: 0))
    }

    @Test func theHubIsBoundedAndThenShut() throws {
        let limits = limits {
            $0.connectionsMax = 1
            $0.refusalsMax = 1
        }
        let admission = AdmissionControl(loops: 1, limits: limits)
        #expect(isWelcome(admission.arrived(from: try address("192.0.2.1"), at: start)))
        #expect(admission.arrived(from: try address("192.0.2.2"), at: start) == .refused(loop: 0, .hubFull))
        #expect(admission.arrived(from: try address("192.0.2.3"), at: start) == .shut(.hubFull))
    }

    @Test func connectionsAreBoundedInTime() throws {
        let limits = limits {
            $0.addressConnectsPerSecond = 10
            $0.addressConnectsBurst = 3
            $0.refusalsPerAddressMax = 1
        }
        let admission = AdmissionControl(loops: 1, limits: limits)
        let (peer, other) = (try address("192.0.2.1"), try address("192.0.2.2"))
        for _ in 0..<3 { #expect(isWelcome(admission.arrived(from: peer, at: start))) }
        #expect(admission.arrived(from: peer, at: start) == .refused(loop: 0, .addressFast))
        #expect(admission.arrived(from: peer, at: start) == .shut(.addressFast))
        #expect(isWelcome(admission.arrived(from: other, at: start)), "others are not held up")
        let soon = start.advanced(by: .milliseconds(100))
        #expect(isWelcome(admission.arrived(from: peer, at: soon)))
        #expect(admission.arrived(from: peer, at: soon) == .shut(.addressFast))
        let later = start.advanced(by: .seconds(60))
        for _ in 0..<3 { #expect(isWelcome(admission.arrived(from: peer, at: later))) }
        #expect(admission.arrived(from: peer, at: later) == .shut(.addressFast), "never more than a burst")
    }

    @Test func thisMachineAndItsProxiesSpeakForMany() throws {
        let limits = limits {
            $0.connectionsPerAddressMax = 1
            $0.addressConnectsPerSecond = 1
            $0.addressConnectsBurst = 1
            $0.exemptsLoopback = true
        }
        let trusted = TrustedPeers([try #require(AddressRange("10.0.0.1"))])
        let admission = AdmissionControl(loops: 1, limits: limits, trusted: trusted)
        for peer in try ["127.0.0.1", "::1", "10.0.0.1"].map({ try address($0) }) + [.unix] {
            for _ in 0..<5 { #expect(isWelcome(admission.arrived(from: peer, at: start))) }
        }
        #expect(isWelcome(admission.arrived(from: try address("10.0.0.2"), at: start)))
        #expect(admission.arrived(from: try address("10.0.0.2"), at: start) == .refused(loop: 0, .addressFull))
    }

    @Test func strangersOfAnAddressHaveARate() throws {
        let limits = limits {
            ($0.strangerRequestsPerSecond, $0.strangerRequestsBurst) = (10, 3)
            $0.exemptsLoopback = true
        }
        let proxy = try address("10.0.0.1")
        let trusted = TrustedPeers([try #require(AddressRange("10.0.0.1"))])
        let admission = AdmissionControl(loops: 1, limits: limits, trusted: trusted)
        for peer in try ["192.0.2.1", "127.0.0.1", "2001:db8::1"].map({ try address($0) }) + [.unix] {
            for _ in 0..<3 { #expect(admission.mayAsk(peer, at: start)) }
            #expect(!admission.mayAsk(peer, at: start))
            #expect(admission.mayAsk(peer, at: start.advanced(by: .milliseconds(100))))
            #expect(!admission.mayAsk(peer, at: start.advanced(by: .milliseconds(100))))
        }
        #expect(!admission.mayAsk(try address("2001:db8::2"), at: start), "an IPv6 network counts as one address")
        for _ in 0..<5 { #expect(admission.mayAsk(proxy, at: start)) }
    }

    @Test func aProxiedConnectionCountsForItsClient() throws {
        let limits = limits { $0.connectionsPerAddressMax = 1 }
        let proxy = try address("10.0.0.1")
        let trusted = TrustedPeers([try #require(AddressRange("10.0.0.1"))])
        let admission = AdmissionControl(loops: 1, limits: limits, trusted: trusted)
        let (one, two) = (try address("192.0.2.1"), try address("192.0.2.2"))
        for _ in 0..<3 { #expect(isWelcome(admission.arrived(from: proxy, at: start))) }
        #expect(admission.moved(from: proxy, to: one, at: start, begins: true) == .taken)
        #expect(admission.moved(from: proxy, to: one, at: start, begins: true) == .refused(.addressFull))
        #expect(admission.moved(from: proxy, to: two, at: start, begins: true) == .taken)
        // A kept connection of the proxy, used for one client after the other, then for none.
        #expect(admission.moved(from: two, to: proxy, at: start, begins: true) == .taken)
        #expect(admission.moved(from: proxy, to: two, at: start, begins: true) == .taken)
        admission.left(one, loop: 0, wasRefused: false)
        #expect(isWelcome(admission.arrived(from: proxy, at: start)))
        #expect(
            admission.moved(from: proxy, to: one, at: start, begins: true) == .taken, "who is refused takes no room")
        admission.left(one, loop: 0, wasRefused: true)
        for left in [one, two] { admission.left(left, loop: 0, wasRefused: false) }
        #expect(admission.total == 0)
    }

    /// A client behind a proxy may hold as many refused connections as one that connects directly.
    @Test func theRefusedBehindAProxyAreBounded() throws {
        let limits = limits {
            $0.connectionsPerAddressMax = 1
            $0.refusalsPerAddressMax = 2
            $0.addressConnectsPerSecond = 1
            $0.addressConnectsBurst = 1
        }
        let proxy = try address("10.0.0.1")
        let trusted = TrustedPeers([try #require(AddressRange("10.0.0.1"))])
        let admission = AdmissionControl(loops: 1, limits: limits, trusted: trusted)
        let (one, two) = (try address("192.0.2.1"), try address("192.0.2.2"))
        for _ in 0..<6 { #expect(isWelcome(admission.arrived(from: proxy, at: start))) }
        func move(_ peer: PeerAddress, _ client: PeerAddress) -> AdmissionControl.Move {
            admission.moved(from: peer, to: client, at: start, begins: true)
        }
        #expect(move(proxy, one) == .taken)
        #expect(move(proxy, one) == .refused(.addressFull))
        // Over the connection counted as its own it is too fast; then it counts among the refused.
        #expect(move(one, one) == .refused(.addressFast))
        #expect(move(proxy, one) == .ended(.addressFast), "none of its is there but to be told")
        #expect(move(proxy, two) == .taken, "others are not held up")
        #expect(move(proxy, two) == .refused(.addressFull))
        for _ in 0..<2 { admission.left(one, loop: 0, wasRefused: true) }
        #expect(move(proxy, one) == .refused(.addressFast))
        admission.left(one, loop: 0, wasRefused: true)
        admission.left(two, loop: 0, wasRefused: true)
        admission.left(two, loop: 0, wasRefused: false)
        admission.left(proxy, loop: 0, wasRefused: false)
        #expect(admission.total == 0)
        #expect(isWelcome(admission.arrived(from: one, at: start.advanced(by: .seconds(60)))))
    }

    @Test func anAddressThatConnectsOftenWaits() throws {
        let limits = limits {
            $0.addressConnectsPerSecond = 10
            $0.addressConnectsBurst = 2
            $0.addressConnectsWaitingMax = 3
        }
        let proxy = try address("10.0.0.1")
        let trusted = TrustedPeers([try #require(AddressRange("10.0.0.1"))])
        let admission = AdmissionControl(loops: 1, limits: limits, trusted: trusted)
        let (one, two) = (try address("192.0.2.1"), try address("192.0.2.2"))
        func after(_ milliseconds: Int) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }
        for _ in 0..<2 { #expect(isWelcome(admission.arrived(from: one, at: start))) }
        for turn in 1...3 {
            #expect(admission.arrived(from: one, at: start) == .waits(loop: 0, until: after(100 * turn)))
        }
        #expect(admission.arrived(from: one, at: start) == .refused(loop: 0, .addressFast))
        #expect(isWelcome(admission.arrived(from: two, at: start)), "others are not held up")
        #expect(admission.arrived(from: one, at: after(100)) == .waits(loop: 0, until: after(400)))
        // Behind a proxy the same.
        for _ in 0..<5 { #expect(isWelcome(admission.arrived(from: proxy, at: start))) }
        #expect(admission.moved(from: proxy, to: two, at: start, begins: true) == .taken)
        for turn in 1...3 {
            #expect(
                admission.moved(from: proxy, to: two, at: start, begins: true) == .waits(until: after(100 * turn)))
        }
        #expect(admission.moved(from: proxy, to: two, at: start, begins: true) == .refused(.addressFast))
    }

    /// A proxy keeps its connections and sends many clients' requests over each. None of them counts as a connect.
    @Test func requestsOverAProxysConnectionsAreNoConnects() throws {
        let limits = limits {
            $0.addressConnectsPerSecond = 1
            $0.addressConnectsBurst = 2
        }
        let proxy = try address("10.0.0.1")
        let trusted = TrustedPeers([try #require(AddressRange("10.0.0.1"))])
        let admission = AdmissionControl(loops: 1, limits: limits, trusted: trusted)
        let (one, two) = (try address("192.0.2.1"), try address("192.0.2.2"))
        #expect(isWelcome(admission.arrived(from: proxy, at: start)))
        #expect(admission.moved(from: proxy, to: one, at: start, begins: false) == .taken)
        for _ in 0..<10 {
            #expect(admission.moved(from: one, to: two, at: start, begins: false) == .taken)
            #expect(admission.moved(from: two, to: one, at: start, begins: false) == .taken)
        }
        // An upgrade counts as a connect, even on a connection that carried a request of the same client.
        for _ in 0..<2 { #expect(admission.moved(from: one, to: one, at: start, begins: true) == .taken) }
        #expect(admission.moved(from: one, to: one, at: start, begins: true) == .refused(.addressFast))
        #expect(admission.moved(from: one, to: two, at: start, begins: true) == .taken, "others are not held up")
        admission.left(two, loop: 0, wasRefused: false)
        #expect(admission.total == 0)
    }
}

@Suite(.timeLimit(.minutes(15))) struct AddressRatesTests {
    /// Memory stays constant however many addresses connect, and most other addresses are let in.
    @Test func aFloodOfAddressesHoldsUpFewOthers() throws {
        var rates = AddressRates(perSecond: 1, burst: 2, waitingMax: 0)
        let now = Instant(nanoseconds: 1 << 40)
        for number in 0..<1_000 {
            let peer = try #require(PeerAddress("2001:db8:0:\(String(number, radix: 16))::"))
            for _ in 0..<4 { _ = rates.take(peer, at: now) }
        }
        var heldUp = 0
        for number in 0..<250 {
            let peer = try #require(PeerAddress("192.0.2.\(number)"))
            if rates.take(peer, at: now) == nil { heldUp += 1 }
        }
        // About one in 70 shares both slots with the flood.
        #expect(heldUp < 25)
    }

    /// Against a bucket of tokens for each address, which may owe as many as wait.
    @Test(arguments: 0..<20 as Range<UInt64>) func turnsAreThoseOfABucket(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let perSecond = [1, 10, 50, 1_000].randomElement(using: &random) ?? 1
        let burst = Int.random(in: 1...5, using: &random)
        let waitingMax = Int.random(in: 0...8, using: &random)
        let interval = 1_000_000_000 / Int64(perSecond)
        var rates = AddressRates(perSecond: perSecond, burst: burst, waitingMax: waitingMax)
        let peers = try (1...2).map { try #require(PeerAddress("192.0.2.\($0)")) }
        /// In nanoseconds of the rate.
        var credit = [interval * Int64(burst), interval * Int64(burst)]
        var now: UInt64 = 1 << 50
        for _ in 0..<2_000 {
            let passed = Int64.random(in: 0...interval, using: &random)
            now += UInt64(passed)
            for peer in 0...1 { credit[peer] = min(credit[peer] + passed, interval * Int64(burst)) }
            let peer = Int.random(in: 0...1, using: &random)
            let wait = rates.take(peers[peer], at: Instant(nanoseconds: now))
            if interval - credit[peer] > interval * Int64(waitingMax) {
                #expect(wait == nil, "seed \(seed)")
            } else {
                credit[peer] -= interval
                #expect(wait == .nanoseconds(max(0, -credit[peer])), "seed \(seed)")
            }
        }
    }

    @Test func noBoundTakesNoRoom() throws {
        var rates = AddressRates(perSecond: 0, burst: 1, waitingMax: 0)
        let peer = try #require(PeerAddress("192.0.2.1"))
        for _ in 0..<10_000 {
            let wait = rates.take(peer, at: Instant(nanoseconds: 0))
            #expect(wait == .zero)
        }
    }
}
