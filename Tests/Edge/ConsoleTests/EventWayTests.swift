import Clock
import Store
import Sync
import Testing

@testable import Console
@testable import Gateway

/// What became of an event, in words for an operator.
@Suite struct EventWayTests {
    private typealias Device = SurveyedWay.Device

    private static func device(_ state: Device.State) -> Device {
        Device(loop: 0, socket: "1.1", state: state, at: nil, isConnected: true, unsentBytes: 0)
    }

    /// A loop that owns the stream, which stands in `epoch`, and knows these devices.
    private static func owner(
        at position: Int64?, in epoch: String = "e", _ states: [Device.State] = [], subscribers: Int? = nil,
        elsewhere: [String] = []
    ) -> SurveyedWay {
        var way = SurveyedWay(epoch: Epoch("e"))
        way.position = position.map { StreamPosition(epoch: epoch, offset: $0) }
        way.devices = states.map { device($0) }
        way.subscriberCount = subscribers ?? states.count
        way.elsewhere = elsewhere
        return way
    }

    private static let row = EventWay.Row.found(name: "dose.updated", bytes: 40, ageMs: 5)

    @Test(arguments: [
        (EventWay.Row.absent(top: 6), owner(at: 6), "There is no such event: the channel stands at 6."),
        (.absent(top: 7), owner(at: 7), "The log does not have the event any more"),
        (row, owner(at: nil), "No device of the user is connected to this hub."),
        (row, owner(at: nil, elsewhere: ["2.2", "3.3"]), "The user has 2 connections here, and none has subscribed"),
        (row, owner(at: 6), "This hub has not read the event yet: it stands at 6."),
        (row, owner(at: 7), "No device was in the channel when the event came"),
        (row, owner(at: 7, [.written(nil), .written(.min)]), "2 devices: the socket of the device took it."),
        (row, owner(at: 7, [.later(9)]), "1 device: it came later, with a snapshot that has the event."),
        (row, owner(at: 7, [.queued]), "1 device: the event waits for its socket"),
        (row, owner(at: 7, [.gone]), "1 device: it left before its socket took the event"),
        (row, owner(at: 7, [.behind]), "1 device: it reads too slowly"),
        (row, owner(at: 7, [.caughtUp]), "1 device: it read too slowly, and has caught up by pages of the log."),
        (row, owner(at: 7, [.present]), "1 device: it is in the channel; when it came is not remembered."),
        (row, owner(at: 7, [.lost]), "1 device: it was told that what it missed cannot be had"),
        (.unknown, owner(at: 7, [.replayed]), "1 device: it came back later, and the event was replayed to it."),
        (
            row, owner(at: 7, [.handedOn], subscribers: 40),
            "1 device: it was in the channel, and was handed the event. 39 devices more"
        ),
        (row, owner(at: 9, in: "d"), "This hub has not read the event: it stands in another epoch, d."),
        (row, owner(at: 9, in: "d", [.written(nil)]), "1 device: the socket of the device took it."),
        (.otherEpoch("f", top: 9), owner(at: 9, in: "f"), "The number is of another epoch. The database is in f"),
    ]) func itIsSaidInWords(_ row: EventWay.Row, _ way: SurveyedWay, _ words: String) {
        let verdict = EventWay(offset: 7, in: Epoch("e"), row: row, ways: [SurveyedWay(epoch: Epoch("e")), way]).verdict
        #expect(verdict.hasPrefix(words), "\(verdict)")
    }

    @Test func devicesOfAllLoopsCount() {
        let way = EventWay(
            offset: 7, in: Epoch("e"), row: Self.row,
            ways: [Self.owner(at: 7, [.written(nil)]), Self.owner(at: nil, [.written(nil)])])
        #expect(way.position?.offset == 7 && way.subscriberCount == 2)
        #expect(way.verdict == "2 devices: the socket of the device took it.")
    }

    /// What a device got in the epoch before the restore is told of, as that.
    @Test func aNumberOfAnotherEpochIsNoEventOfThisOne() {
        let way = EventWay(
            offset: 7, in: Epoch("e"), row: .otherEpoch("f", top: 9),
            ways: [Self.owner(at: 9, in: "f", [.written(nil)])])
        #expect(way.verdict.hasSuffix("Before: 1 device: the socket of the device took it."), "\(way.verdict)")
    }

    /// The database does not answer, and nobody named an epoch: loops that have not heard of the new one are left out.
    @Test func loopsOfAnotherEpochAreLeftOut() {
        var late = SurveyedWay(epoch: Epoch("d"))
        late.devices = [Self.device(.gone)]
        let way = EventWay(offset: 7, in: nil, row: .unknown, ways: [late, Self.owner(at: 7, [.written(nil)])])
        #expect(way.epoch == Epoch("e") && way.verdict == "1 device: the socket of the device took it.")
        #expect(EventWay(offset: 7, in: nil, row: .unknown, ways: [late]).devices.count == 1)
    }

    @Test func theLogSaysWhatItHas() {
        func row(_ body: String, top: Int64 = 9, in epoch: String? = nil) -> EventWay.Row {
            let log = Snapshot(epoch: "e", offset: top, body: Array(body.utf8))
            return EventWay.Row(.found(log), 7, in: epoch.map { Epoch($0) })
        }
        #expect(
            row(#"[{"o": 7, "name": "x.y", "bytes": 12, "ageMs": 34}]"#) == .found(name: "x.y", bytes: 12, ageMs: 34))
        #expect(
            row(#"[{"o": 6, "name": "x.y", "bytes": 12, "ageMs": 34}]"#) == .absent(top: 9), "an older one is the last")
        #expect(row("[]") == .absent(top: 9) && row("[]", in: "e") == .absent(top: 9))
        #expect(row(#"[{"o": 7, "name": "x.y", "bytes": 12, "ageMs": 34}]"#, in: "d") == .otherEpoch("e", top: 9))
        #expect(row("{") == .unknown)
        for answer in [SnapshotAnswer.missing, .tooLarge, .unavailable(after: .seconds(1)), .refused("42000")] {
            #expect(EventWay.Row(answer, 7, in: nil) == .unknown)
        }
    }
}
