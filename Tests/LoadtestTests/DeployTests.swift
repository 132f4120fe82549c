import Clock
import Foundation
import TestSupport
import Testing

@testable import loadtest

@Suite(.ownThread) struct DeployTests {
    @Test func aTimeCountsAsWhatItWasThen() {
        var timeline = Timeline()
        timeline.begins(.quiet, at: Instant(nanoseconds: 100))
        timeline.begins(.deploying, at: Instant(nanoseconds: 200))
        timeline.begins(nil, at: Instant(nanoseconds: 300))
        timeline.begins(.quiet, at: Instant(nanoseconds: 400))
        let start = Instant(nanoseconds: 50)
        let kinds = [99, 100, 199, 200, 299, 300, 399, 400].map {
            timeline.kind(at: Instant(nanoseconds: $0), since: start)
        }
        #expect(kinds == [nil, .quiet, .quiet, .deploying, .deploying, nil, nil, .quiet])
    }

    @Test func aConnectionToTheNewHubIsNotStillConnected() {
        var timeline = Timeline()
        timeline.begins(.quiet, at: Instant(nanoseconds: 100))
        timeline.begins(.deploying, at: Instant(nanoseconds: 200))
        let kinds = [150, 199, 200, 250].map {
            timeline.kind(at: Instant(nanoseconds: 260), since: Instant(nanoseconds: $0))
        }
        #expect(kinds == [.deploying, .deploying, .returned, .returned])
        #expect(timeline.kind(at: Instant(nanoseconds: 150), since: Instant(nanoseconds: 120)) == .quiet)
    }

    private let log = FileManager.default.temporaryDirectory.appendingPathComponent("deployed-\(UUID().uuidString)")

    private static let script = """
        echo "it is $WORD, $LISTEN_FDS, $((LISTEN_PID - $$))"
        n=0 has=
        while [ $n -lt 64 ]; do [ -e /proc/$$/fd/$n ] && has="$has $n"; n=$((n + 1)); done
        echo "has:$has"
        exit 3
        """

    @Test func aProgramGetsItsEnvironmentAndItsSocketAndNoOther() throws {
        defer { try? FileManager.default.removeItem(at: log) }
        let pipe = Pipe()
        let program = try DeployedHub(
            "/bin/sh", ["-c", Self.script],
            environment: ["WORD": "here", "PATH": "/usr/bin:/bin"], socket: pipe.fileHandleForReading.fileDescriptor,
            log: log)
        #expect(eventually { program.hasEnded })
        #expect(program.status == 3)
        #expect(try program.says("it is here, 1, 0"))
        #expect(try program.says("has: 0 1 2 3\n"))
        #expect(throws: LoadFailure.self) { try program.says("more") }
    }

    @Test func aProgramIsEnded() throws {
        defer { try? FileManager.default.removeItem(at: log) }
        let program = try DeployedHub("/bin/sleep", ["60"], environment: [:], log: log)
        #expect(!program.hasEnded)
        #expect(try !program.says("anything"))
        program.end()
        #expect(program.status == 128 + SIGKILL)
    }
}
