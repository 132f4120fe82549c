import Bytes
import Digests
import Gateway
import HTTP
import JSON
import Store
import Sync

// Offline queues of reminders (`POST /sync/reminders`): each change becomes one action.

extension ActionBatch {
    /// The types of actions by the `op` of a change.
    private static let types: [(op: StaticString, type: String)] = [
        ("create", "createReminder"), ("update", "updateReminder"), ("delete", "deleteReminder"),
        ("snooze", "snoozeReminder"), ("occurrence", "setReminderOccurrence"), ("resolve", "resolve"),
    ]

    /// Reads `{changes: [{op, id?, clientId?, payload | data, timestamp?, key?, base?, deviceId?, n?, tz?}, …], deviceId?}`.
    ///
    /// A change without a key gets one from what it says: a queue that is sent again is carried out once. A queue whose
    /// device is not named is that of a device of its own, for a change may follow from the one before it; its first change
    /// names that, where it can. A change that cannot be read is rejected, and those after it are carried out: none may
    /// hold up an app's queue for ever.
    init(changes body: [UInt8], most: Int) throws(Problem) {
        let steps = body.withUnsafeBytes { body in
            Result { () throws(Problem) in try Self.changes(body, most) }
        }
        self.init(steps: try steps.get())
    }

    private static func changes(_ body: UnsafeRawBufferPointer, _ most: Int) throws(Problem) -> [Step] {
        var device: String?
        var found: [JSONValue]?
        do {
            var reader = try JSONObjectReader(body, maxDepth: ActionLimits.depth + 2)
            while let member = try reader.next() {
                if member.isNamed("deviceId"), member.value.kind != .null {
                    guard let name = member.value.string, !name.holds(0),
                        (1...ActionLimits.deviceIDBytes).contains(name.utf8.count)
                    else {
                        throw Problem(message: "deviceId must be a string of 1 to 200 bytes.")
                    }
                    device = name
                }
                guard member.isNamed("changes") else { continue }
                guard found == nil else { throw Problem(message: "changes is given twice.") }
                var elements = try member.value.array(maxDepth: ActionLimits.depth + 1)
                var changes: [JSONValue] = []
                while let element = try elements.next() {
                    guard changes.count < most else {
                        throw Problem(
                            message: "changes has more than \(most) elements: send them in several requests.")
                    }
                    changes.append(element)
                }
                found = changes
            }
        } catch let problem as Problem {
            throw problem
        } catch {
            found = nil
        }
        guard let found else { throw Problem(message: "Send a JSON object whose changes is a list of objects.") }
        var random = SystemRandomNumberGenerator()
        var own = "hub-" + String(random.next(), radix: 16)
        if let first = found.first, QueuedChange(first)?.isOnlyOne == true {
            own = "hub-" + String(SHA256.hash(first.bytes).hex.prefix(16))
        }
        var steps: [Step] = []
        var chain = ""
        for change in found {
            chain = "hub-" + (Array(chain.utf8) + change.bytes).withUnsafeBytes { SHA256.hash($0).hex }
            steps.append(step(of: change, chain, device ?? own))
        }
        return steps
    }

    /// `chain`: a key for all changes up to this one.
    private static func step(of change: JSONValue, _ chain: String, _ device: String) -> Step {
        guard let members = QueuedChange(change) else { return refused(chain, nil, "a change is an object") }
        let key = members.text("key", ActionLimits.keyBytes) ?? members.derivedKey(chain)
        for (name, bytesMax) in texts where members[name] != nil && members.text(name, bytesMax) == nil {
            return refused(key, name, "must be a string of 1 to 200 bytes")
        }
        guard let op = members["op"], let type = types.first(where: { op.equals($0.op) })?.type else {
            return refused(key, "op", "must be create, update, delete, snooze, occurrence or resolve")
        }
        for name in objects where members[name] != nil && members[name]?.kind != .object {
            return refused(key, name, "must be an object")
        }
        let number = members["n"]?.integer
        guard members["n"] == nil || (1...ActionLimits.numberMax).contains(number ?? 0) else {
            return refused(key, "n", "must be a whole number, from 1 on")
        }
        return .action(
            ActionEnvelope(
                key: key, deviceID: members.text("deviceId", ActionLimits.deviceIDBytes) ?? device, number: number,
                type: type, payload: members.payload(of: type), base: members["base"].map { [UInt8]($0.bytes) },
                clientTime: members.timestamp.map { [UInt8]($0.bytes) },
                timeZone: members.text("tz", ActionLimits.timeZoneBytes)))
    }

    private static let texts: [(StaticString, Int)] = [
        ("key", ActionLimits.keyBytes), ("deviceId", ActionLimits.deviceIDBytes), ("tz", ActionLimits.timeZoneBytes),
    ]
    private static let objects: [StaticString] = ["payload", "data", "base"]

    private static func refused(_ key: String, _ path: StaticString?, _ message: StaticString) -> Step {
        .error(.invalid(key: key, path: path?.description, message: message), key: key)
    }
}

/// The members of a change, pointing into its text.
private struct QueuedChange {
    private let members: [JSONMember]
    private let text: UnsafeRawBufferPointer

    /// Nil if it is no object.
    init?(_ change: JSONValue) {
        guard var reader = try? change.object(maxDepth: ActionLimits.depth) else { return nil }
        var members: [JSONMember] = []
        while let member = try? reader.next() { members.append(member) }
        self.members = members
        text = change.bytes
    }

    /// A member's value; null counts as missing.
    subscript(name: StaticString) -> JSONValue? {
        members.last { $0.isNamed(name) && $0.value.kind != .null }?.value
    }

    /// When the person acted.
    var timestamp: JSONValue? { self["timestamp"] ?? self["clientTime"] }

    /// Nil where it is missing, or no such text.
    func text(_ name: StaticString, _ bytesMax: Int) -> String? {
        guard let text = self[name]?.string, (1...bytesMax).contains(text.utf8.count), !text.holds(0) else {
            return nil
        }
        return text
    }

    /// Whether no other device and no other moment has this change: it makes a rule under a temporary name, or is dated.
    var isOnlyOne: Bool { timestamp != nil || self["op"]?.equals("create") == true && isTemporary }

    private var isTemporary: Bool {
        let names = [self["clientId"], self["id"], own("id"), own("clientId")]
        return names.contains { $0?.string?.hasPrefix("tmp-") == true }
    }

    /// A member of the payload.
    private func own(_ name: StaticString) -> JSONValue? {
        guard var reader = try? (self["payload"] ?? self["data"])?.object(maxDepth: ActionLimits.depth) else {
            return nil
        }
        var found: JSONValue?
        while let member = try? reader.next() {
            if member.isNamed(name), member.value.kind != .null { found = member.value }
        }
        return found
    }

    /// Whether it is about one occurrence. The rule's revision does not rise then, so it tells no repeat.
    private var isOfOccurrence: Bool {
        self["op"]?.equals("occurrence") == true || self["op"]?.equals("snooze") == true
            || own("applyTo")?.equals("occurrence") == true
    }

    /// Equal for each repeat of a dated change. One without a date that says which revision it saw, or makes a rule under a
    /// temporary name, has the queue's key up to it: so the same queue sent again is known. Any other may be meant twice: a
    /// person who cancels an occurrence, takes that back, and cancels it again, means each.
    func derivedKey(_ chain: String) -> String {
        if timestamp != nil { return "hub-" + SHA256.hash(text).hex }
        if isOnlyOne || !isOfOccurrence && (self["base"] != nil || own("rev") != nil) { return chain }
        var random = SystemRandomNumberGenerator()
        return "hub-" + String(random.next(), radix: 16) + String(random.next(), radix: 16)
    }

    /// Members that may stand beside the payload, and name what it is about.
    private static func beside(_ type: String) -> [StaticString] {
        switch type {
        case "snoozeReminder": ["occurrenceId"]
        case "setReminderOccurrence", "updateReminder": ["occurrenceId", "date"]
        case "resolve": ["of", "choice", "merged"]
        default: []
        }
    }

    /// `payload` or `data`, with the `id`, `clientId` and such that the change has beside it.
    func payload(of type: String) -> [UInt8] {
        var writer = ByteWriter(capacity: 256)
        var own: [JSONMember] = []
        if let payload = self["payload"] ?? self["data"], var reader = try? payload.object(maxDepth: ActionLimits.depth)
        {
            while let member = try? reader.next() { own.append(member) }
        }
        func quoted(_ name: StaticString) -> [UInt8] { Array("\"\(name)\"".utf8) }
        func append(_ name: [UInt8], _ value: JSONValue) {
            writer.append(writer.count > 0 ? "," : "{")
            name.withUnsafeBytes { writer.append($0) }
            writer.append(":")
            writer.append(value.bytes)
        }
        func lacks(_ name: StaticString) -> Bool { !own.contains { $0.isNamed(name) && $0.value.kind != .null } }
        for member in own { append(Array(member.key.bytes), member.value) }
        func has(_ name: StaticString) -> Bool { !lacks(name) || self[name] != nil }
        for name in Self.beside(type) where lacks(name) {
            if let value = self[name] { append(quoted(name), value) }
        }
        if let id = self["id"] ?? (type == "createReminder" ? nil : self["clientId"]) {
            let target: (name: StaticString, isTold: Bool) =
                switch type {
                case "setReminderOccurrence" where has("date"): ("id", !lacks("id"))
                case "snoozeReminder", "setReminderOccurrence": ("occurrenceId", has("occurrenceId"))
                case "resolve": ("of", has("of"))
                default: ("id", !lacks("id"))
                }
            if !target.isTold { append(quoted(target.name), id) }
        }
        if type == "createReminder", let clientID = self["clientId"], lacks("clientId") {
            append(quoted("clientId"), clientID)
        }
        writer.append(writer.count > 0 ? "}" : "{}")
        return writer.array
    }
}

extension HTTPResponse {
    /// The response to an offline queue: the members of the snapshot, a `sync:result` for each change, the conflicts among
    /// these once more, with their keys, and the position of the snapshot.
    static func synced(_ answers: [ActionAnswer], _ answer: SnapshotAnswer, as user: String) -> HTTPResponse {
        guard case .found(let snapshot) = answer else {
            return .snapshot(answer, .unkept, unless: nil, [:])
        }
        var body = ByteWriter(capacity: snapshot.body.count + answers.reduce(256) { $0 + $1.json.count * 2 })
        body.append("{")
        snapshot.body.withUnsafeBytes { body.append($0.part(1..<$0.count - 1)) }
        body.append(#","results":["#)
        for (index, answer) in answers.enumerated() {
            if index > 0 { body.append(",") }
            answer.json.withUnsafeBytes { body.append($0) }
        }
        body.append(#"],"conflicts":["#)
        var isFirst = true
        for answer in answers where answer.status == .conflict {
            answer.json.withUnsafeBytes { json in
                guard var reader = try? JSONObjectReader(json) else { return }
                var (key, conflict): (JSONValue?, JSONValue?)
                while let member = try? reader.next() {
                    if member.isNamed("key") { key = member.value }
                    if member.isNamed("conflict"), member.value.kind == .object { conflict = member.value }
                }
                guard let key, let conflict else { return }
                if !isFirst { body.append(",") }
                isFirst = false
                body.append(#"{"key":"#)
                body.append(key.bytes)
                body.append(",")
                body.append(conflict.bytes.part(1..<conflict.bytes.count))
            }
        }
        body.append(#"],"positions":{"#)
        let stream = StreamID(user: user, topic: "reminders")
        if let channel = StreamName(form: .user, stream: stream).format() {
            body.append(jsonString: channel)
            body.append(#":{"epoch":"#)
            body.append(jsonString: snapshot.epoch)
            body.append(#","offset":"#)
            body.append(decimal: Int(snapshot.offset))
            body.append("}")
        }
        body.append("}}")
        let response = HTTPResponse(.ok, body: body.array)
            .with("X-Sync-Position", "\(snapshot.epoch):\(snapshot.offset)")
            .with("Cache-Control", "no-store")
        let wait = answers.lazy.filter { $0.status == .retry }.map { $0.retryAfter ?? .zero }.max()
        return wait.map { response.retrying(after: $0) } ?? response
    }
}
