import Bytes
import Testing

@Suite struct MessagesTests {
    private func texts(_ messages: Messages) -> [String] {
        var texts: [String] = []
        messages.each { texts.append(String(decoding: $0, as: UTF8.self)) }
        return texts
    }

    private func several(_ texts: [String]) -> Messages {
        var writer = ByteWriter()
        for text in texts { Messages.append(to: &writer) { $0.append(utf8: text) } }
        return Messages(writer)
    }

    @Test(arguments: [[], [""], ["a"], ["", "", "b"], [String(repeating: "c", count: 70_000), "d"]])
    func comeBackInOrder(_ expected: [String]) {
        let messages = several(expected)
        #expect(texts(messages) == expected)
        #expect(messages.byteCount == expected.reduce(0) { $0 + $1.utf8.count + Messages.lengthBytes })
        #expect(expected.count != 1 || texts(Messages(capacity: 1) { $0.append(utf8: expected[0]) }) == expected)
    }

    /// A block that is shared is not written.
    @Test func aBlockIsRewrittenByItsOnlyHolder() {
        var messages = several(["ab"])
        let held = messages
        #expect(!messages.rewrite { _ in 0..<0 })
        #expect(texts(held) == ["ab"])
        var own = several(["ab"])
        #expect(!own.rewrite { _ in nil })
        #expect(
            own.rewrite { bytes in
                bytes[5] = UInt8(ascii: "c")
                return 4..<6
            })
        #expect(own.bytes().string == "ac")
    }
}
