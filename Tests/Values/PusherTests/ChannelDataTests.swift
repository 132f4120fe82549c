import Bytes
import JSON
import Pusher
import Testing

/// A backend's data about a member of a presence channel, and how other members get it.
@Suite struct ChannelDataTests {
    @Test(
        arguments: [
            (#"{"user_id":"7"}"#, "7", ""), (#"{"user_id":7,"user_info":{"a": [1]}}"#, "7", #"{"a": [1]}"#),
            (#"{"user_info":"x","user_id":"é\u0020"}"#, "é ", #""x""#), (#"{"user_id":-3,"user_info":null}"#, "-3", ""),
            (#" {"other":{},"user_id":"a"} "#, "a", ""),
        ] as [(String, String, String)]) func reads(text: String, id: String, info: String) throws
    {
        let data = try ChannelData(text)
        #expect(data.userID == id && data.userInfo == Array(info.utf8))
    }

    @Test(arguments: [
        "{}", #"{"user_id":""}"#, #"{"user_id":1.5}"#, #"{"user_id":1e3}"#, #"{"user_id":null}"#, #"{"user_id":[]}"#,
        #"{"user_id":99999999999999999999}"#,
    ])
    func needsAnID(_ text: String) {
        #expect(throws: ChannelDataError.invalidUserID) { try ChannelData(text) }
    }

    @Test(arguments: ["", "[]", "7", "{", #"{"user_id":"1","user_id":"2"}"#, #"{"user_info":1,"user_info":2}"#])
    func needsAnObjectThatSaysThingsOnce(_ text: String) {
        #expect(throws: ChannelDataError.self) { try ChannelData(text) }
    }

    @Test func idsAreBounded() throws {
        let longest = String(repeating: "é", count: 64)
        #expect(try ChannelData(#"{"user_id":"\#(longest)"}"#).userID == longest)
        #expect(throws: ChannelDataError.invalidUserID) { try ChannelData(#"{"user_id":"\#(longest)x"}"#) }
    }

    private func written(_ write: (inout ByteWriter) -> Void) -> String {
        var writer = ByteWriter()
        write(&writer)
        return writer.string
    }

    @Test func anEmptyPresenceChannelHasAnObject() throws {
        let channel = try #require(ChannelName("presence-x"))
        var list = MemberList()
        #expect(
            written { ServerEvent.subscriptionSucceeded(channel, members: list, to: &$0) }
                == #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-x","#
                + #""data":"{\"presence\":{\"ids\":[],\"hash\":{},\"count\":0}}"}"#)
        list.append("7", info: Array(#"{"n":"\""}"#.utf8))
        list.append("a\"", info: [])
        #expect(
            written { ServerEvent.subscriptionSucceeded(channel, members: list, to: &$0) }
                == #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-x","#
                + #""data":"{\"presence\":{\"ids\":[\"7\",\"a\\\"\"],\"hash\":{\"7\":{\"n\":\"\\\"\"},\"a\\\"\":{}},"#
                + #"\"count\":2}}"}"#)
    }

    @Test(
        arguments: [
            (#"{"a": 1}"#, #"{\"a\": 1}"#, #"{"a": 1}"#), (#""t\u00e9\"""#, #"t\u00e9\""#, "té\""),
            ("null", "null", "null"),
            ("[true]", "[true]", "[true]"),
        ] as [(String, String, String)]) func clientsDataBecomesAString(text: String, json: String, told: String) throws
    {
        let channel = try #require(ChannelName("private-x"))
        Array(text.utf8).withUnsafeBytes { data in
            #expect(
                written { ServerEvent.clientEvent("client-a", channel, data: data, userID: nil, to: &$0) }
                    == #"{"event":"client-a","channel":"private-x","data":"\#(json)"}"#)
            #expect(ClientEventData.characters(data) == Array(told.utf8))
            #expect(ClientEventData.count(data) == told.utf8.count)
        }
    }
}
