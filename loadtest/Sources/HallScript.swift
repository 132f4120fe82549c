import Bytes
import Clock
import Glibc
import Pusher
import Reactor

/// Clients of presence channels and of others, who come and go. Each keeps what it shows: its channel's members, and the
/// numbers of the events that it has got.
final class HallScript: CrowdScript {
    var isCurrent: (LoadDevice) -> Void = { _ in }
    var isUnavailable: (LoadDevice, Int) -> Void = { _, _ in }
    /// Whether that client is in its channel.
    var isIn: (Int) -> Bool = { _ in false }
    let halls: [Hall]
    /// By client: the place of its channel.
    let hallOf: [Int]
    /// What clients were told that cannot be, by what it was.
    private(set) var faults: [String: Int] = [:]
    /// The first of them.
    private(set) var firstFaults: [String] = []
    /// How often a client was told that somebody has left who is there.
    private(set) var flickers = 0
    private(set) var deliveries = 0
    /// By client: the places of those that it shows; nil while it is not in.
    private(set) var shown: ContiguousArray<Bits?>
    /// By client: the numbers of the events that it has ever got.
    private(set) var heard: ContiguousArray<Bits>

    private let names: Names
    private let presence: PusherScript
    private let plain: PusherScript
    private let prefix: [UInt8]

    init(_ credentials: AppCredentials, _ names: Names, halls: [Hall]) {
        self.halls = halls
        self.names = names
        hallOf = halls.indices.flatMap { Array(repeating: $0, count: halls[$0].count) }
        presence = PusherScript(credentials, names, .presence)
        plain = PusherScript(credentials, names, .public)
        prefix = Array(names.prefix.utf8)
        shown = ContiguousArray(repeating: nil, count: hallOf.count)
        heard = ContiguousArray(repeating: Bits(), count: hallOf.count)
    }

    func id(_ client: Int) -> String { names.id(client) }

    func channel(_ hall: Int) -> String { (halls[hall].isPresence ? presence : plain).channel(hall) }

    func ask(_ topic: Int, _ device: LoadDevice) {}

    func opened(_ device: LoadDevice) { shown[device.recipient.number] = nil }

    /// The client says that it leaves its channel, as one does whose person goes on to another page.
    func leaves(_ device: LoadDevice) {
        var message = ByteWriter()
        message.append(#"{"event":"pusher:unsubscribe","data":{"channel":"#)
        message.append(jsonString: channel(device.recipient.user))
        message.append("}}")
        device.send(message)
    }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {
        let client = device.recipient.number
        if text.hasPrefix(#"{"event":"e""#) { return event(text, client) }
        let hall = halls[device.recipient.user]
        if text.hasPrefix(#"{"event":"pusher_internal:member_added""#) {
            return member(text, client, hall, comes: true)
        }
        if text.hasPrefix(#"{"event":"pusher_internal:member_removed""#) {
            return member(text, client, hall, comes: false)
        }
        // pusher-js would not ask again.
        if text.hasPrefix(#"{"event":"pusher:subscription_error""#) { isWrong("a subscribe that was refused", client) }
        (hall.isPresence ? presence : plain).received(text, by: device)
        guard text.hasPrefix(#"{"event":"pusher_internal:subscription_succeeded""#) else { return }
        if hall.isPresence { list(text, client, hall) }
        isCurrent(device)
    }

    private func event(_ text: UnsafeRawBufferPointer, _ client: Int) {
        guard let number = text.number(behind: #""data":""#) else {
            return isWrong("an event without its number", client)
        }
        deliveries += 1
        if heard[client][number] { isWrong("an event twice", client) }
        heard[client][number] = true
    }

    private func list(_ text: UnsafeRawBufferPointer, _ client: Int, _ hall: Hall) {
        var members = Bits()
        var rest = text.part(behind: #"\"ids\":["#)
        if let end = rest.firstIndex(of: UInt8(ascii: "]")) { rest = UnsafeRawBufferPointer(rebasing: rest[..<end]) }
        while let (number, behind) = rest.next(prefix) {
            rest = behind
            guard hall.clients.contains(number) else { return isWrong("a stranger in the list", client) }
            if members[number - hall.first] { isWrong("a member twice in the list", client) }
            members[number - hall.first] = true
        }
        if text.number(behind: #"\"count\":"#) != members.count {
            isWrong("a count that is not that of the list", client)
        }
        if !members[client - hall.first] { isWrong("a list without the client", client) }
        shown[client] = members
    }

    private func member(_ text: UnsafeRawBufferPointer, _ client: Int, _ hall: Hall, comes: Bool) {
        guard let (number, _) = text.part(behind: #"\"user_id\":"#).next(prefix), hall.clients.contains(number),
            shown[client] != nil
        else { return isWrong("news of a member that it cannot know", client) }
        if shown[client]?[number - hall.first] == comes {
            isWrong(comes ? "twice that a member came" : "that a member left who was not there", client)
        }
        shown[client]?[number - hall.first] = comes
        if !comes, isIn(number) { flickers += 1 }
    }

    private func isWrong(_ fault: String, _ client: Int) {
        faults[fault, default: 0] += 1
        if firstFaults.count < 10 { firstFaults.append("\(names.id(client)) in \(channel(hallOf[client])): \(fault)") }
    }
}

extension UnsafeRawBufferPointer {
    /// What comes behind the first of these words; nothing where they are not.
    fileprivate func part(behind words: StaticString) -> UnsafeRawBufferPointer {
        part(behind: UnsafeRawBufferPointer(start: words.utf8Start, count: words.utf8CodeUnitCount))
    }

    private func part(behind words: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        guard let base = baseAddress, let sought = words.baseAddress else { return nothing }
        // By the C library: a debug build takes long for each byte.
        var start = 0
        while start + words.count <= count {
            let last = count - start - words.count + 1
            guard let found = memchr(base + start, Int32(words[0]), last) else { break }
            start = UnsafeRawPointer(found) - base
            if memcmp(found, sought, words.count) == 0 {
                start += words.count
                return UnsafeRawBufferPointer(start: base + start, count: count - start)
            }
            start += 1
        }
        return nothing
    }

    /// The digits there.
    fileprivate func number(behind words: StaticString) -> Int? {
        let digits = part(behind: words).digits
        return digits.count > 0 ? digits.value : nil
    }

    /// The number behind the next such prefix, and what comes behind it.
    fileprivate func next(_ prefix: [UInt8]) -> (Int, UnsafeRawBufferPointer)? {
        let rest = prefix.withUnsafeBytes { part(behind: $0) }
        let digits = rest.digits
        guard digits.count > 0 else { return nil }
        return (digits.value, UnsafeRawBufferPointer(rebasing: rest[digits.count...]))
    }

    private var digits: (value: Int, count: Int) {
        var (value, length) = (0, 0)
        while length < Swift.min(count, 12), (48...57).contains(self[length]) {
            value = value * 10 + Int(self[length]) - 48
            length += 1
        }
        return (value, length)
    }
}
