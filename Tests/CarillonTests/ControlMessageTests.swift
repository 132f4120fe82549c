import Clock
import Gateway
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct ControlMessageTests {
    @Test func requestsAreReadAsTheyAreWritten() {
        for request in [ControlRequest.takeOver(version: 1), .takeOver(version: 12), .ready, .drain, .cancel] {
            #expect(request.line.hasSuffix("\n") && request.line.utf8.count < ControlRequest.bytesMax)
            #expect(ControlRequest(String(request.line.dropLast())) == request)
        }
        for other in ["", "take-over", "take-over x", "take-over 1 2", "ready ", "Drain", "sockets"] {
            #expect(ControlRequest(other) == nil, "\(other)")
        }
    }

    @Test func answersAreReadAsTheyAreWritten() {
        let answers: [ControlAnswer] = [
            .sockets(["control", "operations", "listen", "listen"]), .sockets([]), .relieved, .later("this hub ends"),
            .refused("no drain is under way"), .draining, .drained, .cancelled, .left(7),
        ]
        for answer in answers { #expect(ControlAnswer(String(answer.line.dropLast())) == answer) }
        for other in ["", "left", "left x", "ready"] { #expect(ControlAnswer(other) == nil, "\(other)") }
    }

    @Test func linesComeWholeOutOfAnyPieces() {
        let text = Array("take-over 1\nready\n\n".utf8)
        for cut in 0...text.count {
            var (lines, found) = (LineBuffer(bytesMax: 64), [String]())
            for piece in [text[..<cut], text[cut...]] {
                let fits = lines.append(Array(piece))
                #expect(fits)
                while let line = lines.next() { found.append(line) }
            }
            #expect(found == ["take-over 1", "ready", ""])
        }
    }

    @Test func longLinesAndOtherBytesAreGivenUp() {
        var lines = LineBuffer(bytesMax: 4)
        let atBound = lines.append([0x61, 0x61, 0x61, 0x0A])
        let onePast = lines.append([0x61])
        #expect(atBound && !onePast)
        for byte in [UInt8(0), 0x0D, 0x1F, 0x7F, 0xC3] {
            var lines = LineBuffer(bytesMax: 4)
            let fits = lines.append([byte])
            #expect(!fits, "\(byte)")
        }
    }

    // MARK: The drain's time

    private let start = Instant(nanoseconds: 1_000_000_000)

    private func progress(pause: Duration = .zero, deadline: Duration = .seconds(20)) -> DrainProgress {
        DrainProgress(at: start, pause: pause, deadline: deadline)
    }

    private func at(_ seconds: Int) -> Instant { start.advanced(by: .seconds(seconds)) }

    @Test func aDrainPausesClosesAndEnds() {
        var progress = progress(pause: .seconds(10))
        #expect(progress.steps(at: at(9), connections: 0) == [])
        #expect(progress.steps(at: at(10), connections: 5) == [.close])
        #expect(progress.steps(at: at(11), connections: 1) == [])
        #expect(progress.steps(at: at(12), connections: 0) == [.finished])
        #expect(progress.isOver)
        #expect(progress.steps(at: at(99), connections: 3) == [])
        #expect(progress.time(at: at(12)) == .seconds(12))
    }

    @Test func aDrainHasADeadlineThatBeginsBehindThePause() {
        var progress = progress(pause: .seconds(10))
        #expect(progress.steps(at: at(10), connections: 5) == [.close])
        #expect(progress.steps(at: at(29), connections: 5) == [])
        #expect(progress.steps(at: at(30), connections: 5) == [.closeRest, .finished])
        var nothing = self.progress(deadline: .zero)
        #expect(nothing.steps(at: start, connections: 2) == [.close, .closeRest, .finished])
    }

    @Test func visitorsGetMoreTime() {
        func progress() -> DrainProgress {
            var progress = DrainProgress(at: start, pause: .zero, deadline: .seconds(2), grace: .seconds(4))
            #expect(progress.steps(at: start, connections: 3) == [.close])
            #expect(progress.steps(at: at(1), connections: 3, visitors: UnansweredConnections(begun: 3)) == [])
            // A count from before the closings says nothing: a new one is asked for.
            #expect(progress.steps(at: at(2), connections: 3) == [.count])
            return progress
        }
        var closing = progress()
        #expect(closing.steps(at: at(2), connections: 3, visitors: UnansweredConnections()) == [.closeRest, .finished])
        var silent = progress()
        #expect(silent.steps(at: at(3), connections: 3, visitors: UnansweredConnections(silent: 1)) == [.count])
        #expect(
            silent.steps(at: at(4), connections: 3, visitors: UnansweredConnections(silent: 1)) == [
                .closeRest, .finished,
            ])
        var begun = progress()
        #expect(
            begun.steps(at: at(5), connections: 3, visitors: UnansweredConnections(silent: 2, begun: 1)) == [.count])
        #expect(begun.steps(at: at(5), connections: 3) == [.count])
        #expect(begun.steps(at: at(6), connections: 3) == [.closeRest, .finished], "its time is over")
        var answered = progress()
        #expect(answered.steps(at: at(3), connections: 0) == [.finished])
    }

    @Test func aDrainTellsHowFarItIs() {
        var progress = progress()
        let early = progress.tells(at: at(6))
        #expect(!early, "it has not begun")
        _ = progress.steps(at: start, connections: 5)
        let told = [4, 5, 6, 10].map { progress.tells(at: at($0)) }
        #expect(told == [false, true, false, true])
    }

    // MARK: Socket activation

    @Test func socketsOfSystemdAreThoseMeantForThisProcess() throws {
        let environment = ["LISTEN_PID": "77", "LISTEN_FDS": "3", "LISTEN_FDNAMES": "clear::x"]
        let sockets = try GivenSockets.systemd(environment, process: 77)
        #expect(sockets.map(\.descriptor) == [3, 4, 5] && sockets.map(\.name) == ["clear", "", "x"])
        #expect(try GivenSockets.systemd(environment, process: 78) == [])
        #expect(try GivenSockets.systemd([:], process: 77) == [])
        #expect(
            try GivenSockets.systemd(["LISTEN_PID": "77", "LISTEN_FDS": "1"], process: 77).map(\.name) == ["unknown"])
        for bad in ["-1", "65", "x", ""] {
            let failure = #expect(throws: Failure.self) {
                try GivenSockets.systemd(["LISTEN_PID": "77", "LISTEN_FDS": bad], process: 77)
            }
            #expect(failure?.status == .configuration)
        }
    }
}
