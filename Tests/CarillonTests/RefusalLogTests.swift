import Clock
import Logging
import Metrics
import Synchronization
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct RefusalLogTests {
    private final class Lines: Sendable {
        private let said = Mutex<[String]>([])

        func add(_ line: String) { said.withLock { $0.append(line) } }
        var all: [String] { said.withLock { $0 } }
    }

    @Test func refusedTokensHaveOneLineAMinute() {
        let lines = Lines()
        let logger = Logger(label: "test") { label in
            LogOutput(label: label, level: .info, style: .plain) { lines.add($0) }
        }
        let metrics = HubMetrics(hasDatabase: true, hasRedis: true)
        var log = RefusalLog(metrics.authFailures, logger)
        let start = Instant(nanoseconds: 1 << 40)
        log.look(now: start)
        #expect(lines.all.isEmpty, "nothing was refused")

        metrics.authFailures["expired"].add()
        metrics.authFailures["unknown_key"].add(3)
        log.look(now: start)
        #expect(lines.all.count == 1)
        let line = lines.all.first ?? ""
        #expect(line.contains(" notice ") && line.contains("tokens or signatures were refused"))
        #expect(line.contains("reasons=unknown_key 3, expired 1"), "\(line)")
        #expect(line.contains("No key of this hub fits the token's kid"), "\(line)")

        metrics.authFailures["channel_signature"].add()
        log.look(now: start.advanced(by: RefusalLog.interval - .milliseconds(1)))
        #expect(lines.all.count == 1, "its time is not over")
        log.look(now: start.advanced(by: RefusalLog.interval))
        #expect(lines.all.count == 2)
        #expect(lines.all.last?.contains("channel_signature 1") == true)
        log.look(now: start.advanced(by: RefusalLog.interval * 3))
        #expect(lines.all.count == 2, "nothing new")
    }
}
