import Testing

@testable import loadtest

@Suite struct HubMessageTests {
    private let names = Names(run: "t", topics: ["adherence", "reminders"])

    private func read(_ text: String) throws -> HubMessage {
        let bytes = Array(text.utf8)
        return try bytes.withUnsafeBytes { try HubMessage($0, names: names) }
    }

    @Test func readsADosesEvent() throws {
        let message = try read(
            #"{"event":"occurrence.updated","channel":"user.load-t-3.adherence","data":"{\"userId\":\"load-t-3\","#
                + #"\"occurrenceId\":\"load-t-12\",\"updates\":{\"rev\":5},\"_sync\":{\"o\":9,\"k\":null}}"}"#)
        guard case .event(let arrival) = message else {
            Issue.record("no event")
            return
        }
        #expect(arrival.user == 3 && arrival.topic == 0 && arrival.offset == 9)
        #expect(arrival.row == 12 && arrival.revision == 5)
    }

    @Test func readsARemindersEvent() throws {
        let message = try read(
            #"{"event":"reminder.updated","channel":"user.load-t-0.reminders","#
                + #""data":"{\"id\":\"load-t-1\",\"rev\":2,\"_sync\":{\"o\":1,\"k\":null}}"}"#)
        guard case .event(let arrival) = message else {
            Issue.record("no event")
            return
        }
        #expect(arrival.topic == 1 && arrival.row == 1 && arrival.revision == 2 && arrival.offset == 1)
    }

    @Test func aSummaryIsOfNoRow() throws {
        let message = try read(
            #"{"event":"adherence.summary_updated","channel":"user.load-t-0.adherence","#
                + #""data":"{\"userId\":\"load-t-0\",\"date\":\"2025-11-20\",\"_sync\":{\"o\":2,\"k\":null}}"}"#)
        guard case .event(let arrival) = message else {
            Issue.record("no event")
            return
        }
        #expect(arrival.row == -1 && arrival.offset == 2)
    }

    @Test func readsAnAcknowledgement() throws {
        let message = try read(
            #"{"event":"pusher_internal:subscription_succeeded","channel":"user.load-t-7.reminders","#
                + #""data":"{\"sync\":{\"epoch\":\"e\",\"offset\":41}}"}"#)
        guard case .subscribed(topic: 1, user: 7, offset: 41) = message else {
            Issue.record("no acknowledgement")
            return
        }
    }

    @Test(arguments: [nil, "store_unavailable"]) func readsTheAnswerToAPosition(_ loss: String?) throws {
        let verdict = loss.map { #"false,\"reason\":\"\#($0)\""# } ?? "true"
        let message = try read(
            #"{"event":"sync:resumed","data":"{\"channels\":{\"user.load-t-7.reminders\":{\"epoch\":\"e\",\"offset\":41,"#
                + #"\"recovered\":\#(verdict)}}}"}"#)
        guard case .resumed(topic: 1, user: 7, offset: 41, let answer) = message else {
            Issue.record("no answer")
            return
        }
        #expect(answer == loss)
    }

    @Test(arguments: ["user.load-u-3.adherence", "user.load-t-.adherence", "user.load-t-3.other", "load-t-3"])
    func anEventOfNobodysIsARefusal(_ channel: String) throws {
        let message = try read(#"{"event":"x","channel":"\#(channel)","data":"{}"}"#)
        guard case .refusal = message else {
            Issue.record("taken for one of ours")
            return
        }
    }

    @Test func theMiddleOfRounds() {
        #expect(Spread([3, 1, 2]).median == 2)
        #expect(Spread([4, 1, 2, 3]).median == 2.5)
        #expect(Spread([2, 1]).least == 1)
    }
}
