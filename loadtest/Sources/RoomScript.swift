import Bytes
import Clock
import JSON
import Pusher

/// Members of presence channels, each a user of its own, who all stay: what each is told must be so.
final class RoomScript: CrowdScript {
    var isCurrent: (LoadDevice) -> Void = { _ in }
    var isUnavailable: (LoadDevice, Int) -> Void = { _, _ in }
    /// What clients were told that is not so, by what it was.
    private(set) var faults: [String: Int] = [:]
    private(set) var deliveries = 0
    /// Whether all have come: nobody comes or goes any more.
    var isWhole = false
    /// When each event of each room was sent, by its number.
    private(set) var sent: [[Instant]]

    private let joining: PusherScript
    private let names: Names
    private let perRoom: Int
    private let count: Int
    /// Of each client: the number of the last event that came by this connection, and since when it is there.
    private var last: [Int?]
    private var since: [Instant]

    init(_ credentials: AppCredentials, _ names: Names, clients count: Int, perRoom: Int) {
        self.names = names
        self.perRoom = perRoom
        self.count = count
        joining = PusherScript(credentials, names, .presence)
        sent = Array(repeating: [], count: (count + perRoom - 1) / perRoom)
        last = Array(repeating: nil, count: count)
        since = Array(repeating: Instant(nanoseconds: 0), count: count)
    }

    var rooms: Int { sent.count }

    func channel(_ room: Int) -> String { joining.channel(room) }

    /// An event is about to be published there. Its number.
    func publishes(in room: Int) -> Int {
        sent[room].append(.read())
        return sent[room].count - 1
    }

    /// Whether all are told all.
    var isComplete: Bool {
        (0..<count).allSatisfy { client in
            let events = sent[client / perRoom]
            return last[client] == events.count - 1 || events.last.map { $0 <= since[client] } ?? true
        }
    }

    func ask(_ topic: Int, _ device: LoadDevice) {}

    func opened(_ device: LoadDevice) { last[device.recipient.number] = nil }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        if text.hasPrefix(#"{"event":"e""#) { return event(text, device) }
        joining.received(text, by: device)
        if text.hasPrefix(#"{"event":"pusher_internal:subscription_succeeded""#) {
            let room = device.recipient.number / perRoom
            let all = min(perRoom, count - room * perRoom)
            if isWhole, text.string.firstRange(of: #"\"count\":\#(all)"#) == nil {
                isWrong("a list that is not whole")
            }
            since[device.recipient.number] = .read()
            isCurrent(device)
        } else if isWhole, text.hasPrefix(#"{"event":"pusher_internal:member_"#) {
            let isRemoved = text.hasPrefix(#"{"event":"pusher_internal:member_removed"#)
            isWrong(isRemoved ? "that a member left" : "that a member came")
        }
    }

    private func event(_ text: UnsafeRawBufferPointer, _ device: LoadDevice) {
        let client = device.recipient.number
        guard let number = (try? text.member("data")?.string).flatMap({ $0 }).flatMap({ Int($0) }) else {
            return isWrong("an event without its number")
        }
        deliveries += 1
        let events = sent[client / perRoom]
        if let before = last[client] {
            if number <= before { isWrong("an event twice, or out of order") }
            if number > before + 1 { isWrong("not all events") }
        } else if number > 0, number <= events.count, events[number - 1] > since[client] {
            isWrong("not the first events")
        }
        last[client] = number
    }

    private func isWrong(_ fault: String) { faults[fault, default: 0] += 1 }
}
