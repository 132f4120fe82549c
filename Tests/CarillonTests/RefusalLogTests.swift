import Clock
import Identity
import Logging
import Reactor
import Synchronization
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct RefusalLogTests {
    @Test func refusedTokensHaveOneLineAMinute() {
        let lines = Mutex<[String]>([])
        let logger = Logger(label: "test") { label in
            LogOutput(label: label, level: .info, style: .plain) { line in lines.withLock { $0.append(line) } }
        }
        let metrics = HubMetrics(hasDatabase: true)
        var log = RefusalLog(metrics.authFailures, logger)
        let start = Instant(nanoseconds: 1 << 40)
        log.look(now: start)
        #expect(lines.withLock { $0 }.isEmpty, "nothing was refused")

        metrics.authFailures["expired"].add()
        metrics.authFailures["unknown_key"].add(3)
        log.look(now: start)
        #expect(lines.withLock { $0.count } == 1)
        let line = lines.withLock { $0.first ?? "" }
        #expect(line.contains(" notice ") && line.contains("tokens or signatures were refused"))
        #expect(line.contains("reasons=\"unknown_key 3, expired 1\""), "\(line)")
        #expect(line.contains("No key of this hub fits the token's kid"), "\(line)")

        metrics.authFailures["channel_signature"].add()
        log.look(now: start.advanced(by: RefusalLog.interval - .milliseconds(1)))
        #expect(lines.withLock { $0.count } == 1, "its time is not over")
        log.look(now: start.advanced(by: RefusalLog.interval))
        #expect(lines.withLock { $0.count } == 2)
        #expect(lines.withLock { $0.last?.contains("channel_signature 1") } == true)
        log.look(now: start.advanced(by: RefusalLog.interval * 3))
        #expect(lines.withLock { $0.count } == 2, "nothing new")
    }
}
