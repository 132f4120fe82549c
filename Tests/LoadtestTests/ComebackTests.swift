import Testing

@testable import loadtest

@Suite struct ComebackTests {
    @Test(
        arguments: [
            (nil, .after(.seconds(1))), (1001, .after(.seconds(1))), (1006, .after(.seconds(1))),
            (3999, .after(.seconds(1))), (4000, .never), (4099, .never), (4100, .after(.seconds(1))),
            (4199, .after(.seconds(1))), (4200, .after(.zero)), (4299, .after(.zero)), (4300, .never),
        ] as [(UInt16?, Comeback)])
    func aWebSocketsCodeTellsWhen(_ code: UInt16?, _ comeback: Comeback) {
        #expect(Comeback(wasOpen: true, code: code, elapsed: .seconds(3)) == comeback)
    }

    @Test(arguments: [(0, 15_000), (100, 14_900), (15_000, 0), (20_000, 0)])
    func aRefusedAttemptLastsToItsEnd(_ elapsed: Int, _ pause: Int) {
        let comeback = Comeback(wasOpen: false, code: nil, elapsed: .milliseconds(elapsed))
        #expect(comeback == .after(.milliseconds(pause)))
    }

    @Test func countersOfAPageAreRead() {
        let counters = HubCounters(
            """
            # HELP carillon_feed_reads_total Reads of the event log, by kind.
            carillon_feed_reads_total{kind="positions"} 31
            carillon_feed_reads_total{kind="tail"} 7
            carillon_feed_reads_total{kind="log"} 2
            carillon_connections_total 15000
            """)
        #expect(counters.queries == HubCounters.Queries(positions: 31, replays: 0, pages: 2))
        #expect(counters.queries.all == 33)
        #expect(counters["connections_total"] == 15_000 && counters["nothing"] == 0)
    }
}
