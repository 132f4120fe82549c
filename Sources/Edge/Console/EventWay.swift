import Gateway
import JSON
import Store
import Sync

/// The way of one event: from its row in the log to the socket of each device, and what that says of those that did not get
/// it.
struct EventWay: Sendable {
    /// The event in the log.
    enum Row: Sendable, Equatable {
        /// The database did not answer, or there is none.
        case unknown
        /// The log does not have it; where the stream stands.
        case absent(top: Int64)
        /// The stream is in another epoch than the number, and stands there.
        case otherEpoch(String, top: Int64)
        case found(name: String, bytes: Int64, ageMs: Int64)
    }

    typealias Device = SurveyedWay.Device

    let offset: Int64
    /// The epoch of the number; nil where nobody knows one.
    let epoch: Epoch?
    let row: Row
    /// Where its owner has it from; nil where no loop remembers.
    let homed: SurveyedWay.Homed?
    /// Where the owner stands, perhaps in another epoch; nil where nobody is in the stream on this hub.
    let position: StreamPosition?
    let subscriberCount: Int
    let devices: [Device]
    /// Connections of the user that are not in the stream.
    let elsewhere: [String]

    /// - Parameter asked: the epoch that the loops were asked about; nil where each told of the last one that it knows.
    init(offset: Int64, in asked: Epoch?, row: Row, ways: [SurveyedWay]) {
        // The owner is ahead of the others.
        let epoch = asked ?? ways.lazy.compactMap(\.position).first?.epoch ?? ways.lazy.compactMap(\.epoch).first
        let ways = ways.filter { $0.epoch == nil || $0.epoch == epoch }
        self.offset = offset
        self.epoch = epoch
        self.row = row
        homed = ways.lazy.compactMap(\.homed).first
        position = ways.lazy.compactMap(\.position).first
        subscriberCount = ways.reduce(0) { $0 + $1.subscriberCount }
        devices = ways.flatMap(\.devices)
        elsewhere = ways.flatMap(\.elsewhere)
    }

    /// What became of it, in one sentence or two.
    var verdict: String {
        switch row {
        case .absent(let top):
            return offset > top
                ? "There is no such event: the channel stands at \(top). Nothing was committed for it since."
                : "The log does not have the event any more: it is older than store.retainEvents, or from before a restore."
        case .otherEpoch(let other, _):
            let before = devices.isEmpty ? "" : " Before: \(devicesVerdict)"
            return
                "The number is of another epoch. The database is in \(other) since it was restored, copied or promoted, and "
                + "each device is told to fetch a snapshot.\(before)"
        case .unknown, .found: break
        }
        guard let position else {
            guard devices.isEmpty else { return devicesVerdict }
            return elsewhere.isEmpty
                ? "No device of the user is connected to this hub."
                : "The user has \(Self.count(elsewhere.count, "connection")) here, and none has subscribed to the channel."
        }
        guard position.epoch == epoch else {
            return devices.isEmpty
                ? "This hub has not read the event: it stands in another epoch, \(position.epochText)." : devicesVerdict
        }
        guard position.offset >= offset else {
            return
                "This hub has not read the event yet: it stands at \(position.offset). Look at the state of the feed."
        }
        return devices.isEmpty
            ? "No device was in the channel when the event came, and none has come since." : devicesVerdict
    }

    private var devicesVerdict: String {
        let kinds: [(count: Int, says: String)] = [
            (number { if case .written = $0 { true } else { false } }, "the socket of the device took it"),
            (number { $0 == .replayed }, "it came back later, and the event was replayed to it"),
            (
                number { if case .later = $0 { true } else { false } },
                "it came later, with a snapshot that has the event"
            ),
            (number { $0 == .handedOn }, "it was in the channel, and was handed the event"),
            (
                number { $0 == .queued },
                "the event waits for its socket, which takes nothing: the device reads too slowly"
            ),
            (number { $0 == .behind }, "it reads too slowly, and is to get the event by a page of the log"),
            (number { $0 == .caughtUp }, "it read too slowly, and has caught up by pages of the log"),
            (number { $0 == .gone }, "it left before its socket took the event; it will ask again"),
            (number { $0 == .lost }, "it was told that what it missed cannot be had, and to fetch a snapshot"),
            (number { $0 == .present }, "it is in the channel; when it came is not remembered"),
        ]
        let said = kinds.filter { $0.count > 0 }.map { "\(Self.count($0.count, "device")): \($0.says)." }
        let unnoted = subscriberCount - devices.count
        return (said + (unnoted > 0 ? ["\(Self.count(unnoted, "device")) more: not noted one by one."] : []))
            .joined(separator: " ")
    }

    private func number(_ isMeant: (Device.State) -> Bool) -> Int { devices.count { isMeant($0.state) } }

    private static func count(_ count: Int, _ thing: String) -> String { "\(count) \(thing)\(count == 1 ? "" : "s")" }
}

extension EventWay.Row {
    /// The answer of `sync.logged_events` to the question for one event, of that epoch if it has one.
    init(_ answer: SnapshotAnswer, _ offset: Int64, in epoch: Epoch?) {
        guard case .found(let snapshot) = answer,
            let tree = try? JSONTree(String(decoding: snapshot.body, as: UTF8.self)),
            case .array(let events) = tree
        else {
            self = .unknown
            return
        }
        guard epoch == nil || epoch == Epoch(snapshot.epoch) else {
            self = .otherEpoch(snapshot.epoch, top: snapshot.offset)
            return
        }
        guard let event = events.first, event["o"]?.integer == offset, let name = event["name"]?.string else {
            self = .absent(top: snapshot.offset)
            return
        }
        self = .found(name: name, bytes: event["bytes"]?.integer ?? 0, ageMs: event["ageMs"]?.integer ?? 0)
    }
}
