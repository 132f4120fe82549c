import Clock
import Logging
import Reactor
import Synchronization
import Testing

@testable import Gateway
@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct LimitLogTests {
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])

        func take() -> [String] { all.withLock { exchange(&$0, with: []) } }
    }

    private func log(_ metrics: GatewayMetrics, _ level: Logger.Level, now: Instant) -> (LimitLog, Lines) {
        let lines = Lines()
        let logger = Logger(label: "test") { label in
            LogOutput(label: label, level: level, style: .plain) { line in lines.all.withLock { $0.append(line) } }
        }
        return (LimitLog(metrics, logger, now: now), lines)
    }

    @Test func aLimitHasOneLineInItsTime() throws {
        let metrics = GatewayMetrics()
        var now = Instant(nanoseconds: 1 << 40)
        var (log, lines) = log(metrics, .info, now: now)
        for _ in 0..<500 { metrics.refused(.addressFast, try #require(PeerAddress("192.0.2.9"))) }
        metrics.overloaded(.sendQueue, .unix)
        now = now.advanced(by: LimitLog.interval - .milliseconds(1))
        log.look(now: now)
        #expect(lines.take().isEmpty)
        now = now.advanced(by: .milliseconds(1))
        log.look(now: now)
        let said = lines.take()
        #expect(said.count == 2)
        #expect(said[0].contains(" notice ") && said[0].contains("clients reached a limit"))
        #expect(said[0].hasSuffix("count=500  kind=refused  latest=192.0.2.9  limit=limits.connectsPerSecond"))
        #expect(said[1].hasSuffix("count=1  kind=overload  latest=unix  limit=limits.sendQueueBytes"))
        log.look(now: now.advanced(by: LimitLog.interval))
        #expect(lines.take().isEmpty, "nothing new")
    }

    /// Phones lose their network all the time.
    @Test func routineNotesAreForDebug() throws {
        let metrics = GatewayMetrics()
        let now = Instant(nanoseconds: 1 << 40)
        for level in [Logger.Level.info, .debug] {
            var (log, lines) = log(metrics, level, now: now)
            metrics.reached(.pongTimeout, .unix)
            log.look(now: now.advanced(by: LimitLog.interval))
            #expect(lines.take().count == (level == .debug ? 1 : 0))
        }
    }
}
