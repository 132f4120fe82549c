import Clock
import HubEngine
import Pusher
import Testing

@testable import Shared

/// Commands as a server reads them.
@Suite struct CommandWordsTests {
    private func texts(_ words: [[UInt8]]) -> [String] { words.map { String(decoding: $0, as: UTF8.self) } }

    @Test(arguments: [0, 9, 10, 99, 100, 1_234_567_890, .max] as [UInt64]) func numbersAreWhole(_ number: UInt64) {
        let caller = Int(number % 1_000)
        var command = SharedCommand(.event, nil, from: HubID(number), caller: caller, number: number, "a", "", "å")
        #expect(
            texts(command.evaluated(Array("hash".utf8), Array("{1}:".utf8))) == [
                "EVALSHA", "hash", "1", "{1}:", "\(number)", "\(number).\(caller)", "\(number)", "", "", "a", "", "å",
            ])
        command.follows(number)
        command.time = Instant(nanoseconds: number)
        #expect(texts(command.arguments)[3...4] == ["\(number / 1_000_000)", "\(number)"])
        command.follows(nil)
        #expect(command.arguments[4].isEmpty)
    }

    @Test(arguments: [0, 1, 9, 10, 1_000]) func partsOfOthersAreTheirWords(_ length: Int) {
        let long = String(repeating: "x", count: length)
        let one = SharedCommand(.channel, nil, from: HubID(1), number: 7, "enter", long, "\r\n$3\r\n", "", "rest")
        #expect(
            texts(SharedCommand("members", like: one, words: 1..<4).arguments)
                == ["1", "1.0", "7", "", "", "members", long, "\r\n$3\r\n", ""])
        #expect(SharedCommand("all", like: one, words: 0..<5).arguments.count == 11)
        #expect(SharedCommand("none", like: one, words: 2..<2).arguments.count == 6)
    }
}
