import Bytes
import Testing

@testable import Sync

@Suite struct StreamIDTests {
    /// A hub has one for each stream of each user.
    @Test func itsBlockStaysSmall() { #expect(MemoryLayout<StreamText.Header>.size <= 14) }

    @Test(arguments: ["u", "", "é=", String(repeating: "u", count: 300)])
    func aStreamThatSharesItsUsersIDIsTheSame(_ user: String) {
        let stream = StreamID(user: user, topic: "reminders")
        let id = SharedBytes.copy(user)
        let sharing = stream.sharing(id)
        #expect(sharing == stream && sharing.code == stream.code && sharing.isPlain == stream.isPlain)
        #expect(sharing.user == user && sharing.topic == "reminders")
        #expect(sharing.withUser { $0.baseAddress } == id.withUnsafeBytes { $0.baseAddress })
    }

    @Test(arguments: [("user.u1.reminders", true), ("private-user.=3D.reminders", false)])
    func aNameReadForItsUserIsTheSame(_ name: String, _ isPlain: Bool) throws {
        let expected = try #require(try StreamName.parse(name))
        let user = SharedBytes.copy(expected.stream.user)
        var text = name
        try text.withUTF8 { bytes in
            let text = try #require(try StreamName.Text(UnsafeRawBufferPointer(bytes)))
            let read = StreamName(text, of: user)
            #expect(read == expected && read.format() == name)
            #expect(read.stream.isPlain == isPlain)
        }
    }

    @Test func streamsOfOneUserOrOfOneTopicDiffer() {
        let stream = StreamID(user: "ab", topic: "c")
        for (user, topic) in [("a", "bc"), ("abc", ""), ("ab", "d"), ("b", "c")] {
            #expect(StreamID(user: user, topic: topic) != stream)
        }
    }

    /// No topic traps, whatever a database sends; at the bound it is whole, and no name has one that comes near it.
    @Test(arguments: [64, 32_767, 32_768, 70_000]) func aTopicOfAnyLengthIsTaken(_ count: Int) {
        let topic = String(repeating: "t", count: count)
        let stream = StreamID(user: "u", topic: topic)
        #expect(stream.user == "u" && stream.topic.utf8.count == min(count, 32_767))
        #expect((StreamName(form: .user, stream: stream).format() == nil) == (count > 64))
    }
}
