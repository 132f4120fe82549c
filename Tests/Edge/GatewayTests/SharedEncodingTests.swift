import Bytes
import HubEngine
import Testing

@testable import Gateway

/// Messages for sessions with several kinds of sinks, such as WebSockets and event streams.
@Suite struct SharedEncodingTests {
    private final class Texts: SharedEncoding {
        let texts: [String]
        var messages: Messages { Self.messages(texts) }

        init(_ messages: consuming Messages) {
            var texts: [String] = []
            messages.each { texts.append(String(decoding: $0, as: UTF8.self)) }
            self.texts = texts
        }

        static func messages(_ texts: [String]) -> Messages {
            var writer = ByteWriter()
            for text in texts { Messages.append(to: &writer) { $0.append(utf8: text) } }
            return Messages(writer)
        }
    }

    /// With the lengths at which a frame's header grows.
    private static let texts = [
        [""], ["a", "b", ""], [125, 126, 65_535, 65_536, 1].map { String(repeating: "x", count: $0) },
    ]

    @Test(arguments: texts, [true, false]) func eachSinkHasItsForm(_ texts: [String], areFramesFirst: Bool) {
        let shared = SharedMessages(Texts.messages(texts))
        if areFramesFirst { _ = shared.variants }
        let form = shared.form(Texts.self)
        #expect(form.texts == texts)
        let frames = shared.variants
        #expect(Texts(frames.messages).texts == texts)
        #expect(shared.form(Texts.self) === form && shared.variants === frames, "each is made once")
    }
}
