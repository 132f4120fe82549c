import Testing

@testable import Metrics

@Suite(.timeLimit(.minutes(15))) struct ExpositionTests {
    private func text(_ body: (inout Exposition) -> Void) -> String {
        var exposition = Exposition()
        body(&exposition)
        return String(decoding: exposition.bytes, as: UTF8.self)
    }

    @Test func countersHaveHelpTypeAndValue() {
        let counter = Counter()
        counter.add()
        counter.add(41)
        #expect(
            text { $0.counter("events_total", "Events.", counter.count) } == """
                # HELP carillon_events_total Events.
                # TYPE carillon_events_total counter
                carillon_events_total 42

                """)
    }

    @Test func aLabelHasItsFixedValuesAndOther() {
        let table = CounterTable("reason", ["expired", "signature"])
        table["expired"].add(2)
        #expect(
            text { $0.counter("failures_total", "Failures.", table) }.hasSuffix(
                """
                carillon_failures_total{reason="expired"} 2
                carillon_failures_total{reason="signature"} 0

                """))
        table["what a peer\nmade up"].add()
        #expect(text { $0.counter("f_total", "F.", table) }.hasSuffix("carillon_f_total{reason=\"other\"} 1\n"))
    }

    @Test func pairsAreShownFromTheStartAndOtherOnceItHasCounted() {
        let table = CounterTable("type", ["undo", "skip"], by: "result", ["applied", "noop"])
        table["skip", "noop"].add(3)
        table["skip", "??"].add()
        table["??", "applied"].add()
        #expect(
            text { $0.counter("a_total", "A.", table) } == """
                # HELP carillon_a_total A.
                # TYPE carillon_a_total counter
                carillon_a_total{type="undo",result="applied"} 0
                carillon_a_total{type="undo",result="noop"} 0
                carillon_a_total{type="skip",result="applied"} 0
                carillon_a_total{type="skip",result="noop"} 3
                carillon_a_total{type="skip",result="other"} 1
                carillon_a_total{type="other",result="applied"} 1

                """)
    }

    @Test func histogramsAreCumulative() {
        let histogram = Histogram(.nanoseconds, bounds: [500_000, 1_000_000_000])
        histogram.record(.microseconds(500))
        histogram.record(.milliseconds(501))
        histogram.record(.seconds(1))
        histogram.record(.seconds(2))
        histogram.record(.seconds(-2))
        #expect(
            text { $0.histogram("wait_seconds", "Waiting.", histogram, label: .init("from", "commit")) } == """
                # HELP carillon_wait_seconds Waiting.
                # TYPE carillon_wait_seconds histogram
                carillon_wait_seconds_bucket{from="commit",le="0.0005"} 2
                carillon_wait_seconds_bucket{from="commit",le="1"} 4
                carillon_wait_seconds_bucket{from="commit",le="+Inf"} 5
                carillon_wait_seconds_sum{from="commit"} 3.5015
                carillon_wait_seconds_count{from="commit"} 5

                """)
    }

    /// At each bound, and one past it.
    @Test func bucketsEndAtTheirBounds() {
        let histogram = Histogram.sizes()
        for bound in histogram.bounds {
            let before = histogram.snapshot.counts
            histogram.record(bound)
            histogram.record(bound + 1)
            let index = histogram.bounds.firstIndex(of: bound) ?? -1
            let next = histogram.bounds.firstIndex { $0 >= bound + 1 } ?? histogram.bounds.count
            var expected = before
            expected[index] += 1
            expected[next] += 1
            #expect(histogram.snapshot.counts == expected)
        }
        Histogram.times().record(.seconds(Int64.max))
    }

    @Test func labelsAreEscapedAndNumbersPlain() {
        #expect(
            text {
                $0.gauge(
                    "g", "G.", [([.init("a", "q\"b\\n\n")], 0.25), ([], -1), ([], 1e300), ([], .infinity), ([], .nan)])
            } == """
                # HELP carillon_g G.
                # TYPE carillon_g gauge
                carillon_g{a="q\\"b\\\\n\\n"} 0.25
                carillon_g -1
                carillon_g 1e+300
                carillon_g +Inf
                carillon_g NaN

                """)
        #expect(text { $0.gauge("process_x", "X.", 1, plain: true) }.hasSuffix("\nprocess_x 1\n"))
    }

    @Test func manyThreadsCountTogether() async {
        let counter = Counter()
        let gauge = Gauge()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<10_000 {
                        counter.add()
                        gauge.add(1)
                        gauge.add(-1)
                    }
                }
            }
        }
        #expect(counter.count == 40_000)
        #expect(gauge.level == 0)
        gauge.set(7)
        #expect(gauge.level == 7)
    }
}
