import Foundation
import Logging
import Synchronization
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct LogTests {
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    private func logger(_ style: LogOutput.Style, level: Logger.Level = .info) -> (Logger, Lines) {
        let lines = Lines()
        let logger = Logger(label: "test") { label in
            LogOutput(label: label, level: level, style: style) { line in lines.all.withLock { $0.append(line) } }
        }
        return (logger, lines)
    }

    @Test func jsonLinesAreJSON() throws {
        var (logger, lines) = logger(.json)
        logger[metadataKey: "loop"] = "2"
        logger.warning("said \"hello\"\n\u{1}", metadata: ["channels": "7", "level": "mine"])
        let line = try #require(lines.all.withLock { $0.first })
        #expect(!line.contains("\n"))
        let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: String])
        #expect(object["level"] == "warning")
        #expect(object["logger"] == "test")
        #expect(object["message"] == "said \"hello\"\n\u{1}")
        #expect(object["loop"] == "2")
        #expect(object["channels"] == "7")
        #expect(object["field_level"] == "mine")
        #expect(object["time"]?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
    }

    /// A member with such a name would be shown as `field_time`.
    @Test func noLineOfTheHubTakesTheNamesOfEveryLine() throws {
        let taken = try SourceTree.texts().flatMap { path, text in
            text.matches(of: /metadata: \[[^\]]*"(time|level|logger|message)":/).map { "\(path): \($0.1)" }
        }
        #expect(taken == [])
    }

    @Test func linesForPeopleCannotBeForged() throws {
        let (logger, lines) = logger(.plain)
        logger.info("one\ntwo \u{1B}[31m", metadata: ["b": "x\ry", "a": "1"])
        let line = try #require(lines.all.withLock { $0.first })
        #expect(!line.unicodeScalars.contains { $0.properties.generalCategory == .control })
        #expect(line.hasSuffix("  a=1  b=x\\ry"))
        #expect(line.wholeMatch(of: /\d\d:\d\d:\d\d\.\d{3} info     .*/) != nil)
    }

    @Test func levelsBelowTheWantedAreDropped() {
        let (logger, lines) = logger(.colour, level: .warning)
        logger.info("no")
        logger.error("yes")
        #expect(lines.all.withLock { $0.count } == 1)
    }
}
