import Clock
import Testing

@testable import Courier

@Suite struct PausesTests {
    private let endpoints = WebhookApp(["http://a", "http://b"]).endpoints.map {
        Endpoint(CourierApp("1"), signer, $0)
    }

    private func line(_ name: String, of index: Int = 0) -> DeliveryQueue {
        DeliveryQueue(endpoints[index], channel(name))
    }

    @Test func endInTheOrderOfTheirTimes() {
        var pauses = Pauses()
        let (first, second) = (line("first"), line("second"))
        pauses.begin(second, until: .second(3))
        pauses.begin(first, until: .second(1))
        pauses.set(endpoints[1], until: .second(2))
        #expect(pauses.nextEnd == .second(1))
        let early = pauses.popEnded(at: .second(0.5))
        let ended = (0..<4).map { _ in pauses.popEnded(at: .second(9)) }
        #expect(early == nil && ended[3] == nil && pauses.nextEnd == nil)
        #expect(ended[0]?.line === first && ended[2]?.line === second)
        #expect(ended[1]?.endpoint === endpoints[1] && ended[1]?.line == nil && endpoints[1].pausedUntil == nil)
    }

    /// Of several pauses that end at one time, only the right one is removed; each owner is paused exactly while its pause
    /// is stored.
    @Test func oneOfManyIsTakenOut() {
        var pauses = Pauses()
        let lines = ["a", "b", "c"].map { line($0) }
        for line in lines { pauses.begin(line, until: .second(1)) }
        pauses.set(endpoints[0], until: .second(1))
        #expect(endpoints[0].releasable == 3)
        pauses.end(lines[1])
        pauses.end(lines[1])
        #expect(endpoints[0].releasable == 2)
        if case .idle = lines[1].state {} else { Issue.record("it is still paused") }
        pauses.set(endpoints[0], until: .second(2))
        #expect(endpoints[0].pausedUntil == .second(2))
        pauses.set(endpoints[0], until: nil)
        let rest = pauses.end { endpoint, _ in endpoint === endpoints[0] }
        #expect(Set(rest.map(\.channel.string)) == ["a", "c"])
        #expect(endpoints[0].releasable == 0 && pauses.nextEnd == nil)
    }

    @Test func endsWhatIsMeantOnly() {
        var pauses = Pauses()
        let (here, there) = (line("here"), line("there", of: 1))
        pauses.begin(here, until: .second(1))
        pauses.begin(there, until: .second(2))
        let ended = pauses.end { endpoint, _ in endpoint === endpoints[0] }
        #expect(ended.map(\.channel.string) == ["here"])
        #expect(pauses.nextEnd == .second(2))
    }
}
