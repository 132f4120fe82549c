import Bytes
import JSON

/// Why an action cannot be passed to the database. Nothing is stored.
package enum ActionError: Error, Sendable {
    /// No key to answer to: the text is no JSON object, or its key is invalid. The message is for the app's developer.
    case keyless(StaticString)
    /// A field that the hub checks is wrong. `path` is its name in an envelope.
    case invalid(key: String, path: StaticString, message: StaticString, ActionWording)
}

/// The format of an action.
package enum ActionShape: Sendable, Equatable {
    /// `{v, key, deviceId, n, type, payload, base, clientTime, tz}`, on the socket and over HTTP.
    case envelope
    /// `{idempotencyKey, actionType, payload, …}`, as the apps' REST clients send it; or `{id, type, payload, timestamp}`,
    /// as it is in their queues.
    case plain
    /// `{idempotencyKey, occurrenceIds | criteria, takenAt, includeFuture, …}`: a `bulkMarkAll` of REST clients. The middle
    /// fields may also be in a `payload`, as in the clients' queues, and the key may be the `id` of the queued item.
    case plainBulk
    /// `{…}`, an action of this type: the body is its payload, except for `idempotencyKey`, `deviceId`, `n`, `base` or
    /// `rev`, `clientTime` or `timestamp`, and `tz`. Never an envelope. An empty body means `{}`.
    case whole(type: String)

    /// Whether the body is the payload.
    package var isWhole: Bool { if case .whole = self { true } else { false } }

}

/// How an action was written, so that an answer names fields as the client did.
package struct ActionWording: Sendable, Equatable {
    /// The format in which it came.
    package let shape: ActionShape
    /// The payload's fields are outside `payload`.
    fileprivate var isPayloadOutside = false
    /// The client sent `rev` in place of `base`.
    fileprivate var hasRev = false
    /// The client sent `timestamp` in place of `clientTime`.
    fileprivate var hasTimestamp = false
    /// The client sent `type` in place of `actionType`.
    fileprivate var hasType = false

    /// The client's name for a field at fault, such as `payload.takenAt`.
    package func path(ofField field: String) -> String {
        switch field {
        case "type": shape == .plain && !hasType ? "actionType" : field
        case "clientTime": hasTimestamp ? "timestamp" : field
        case "base": hasRev ? "rev" : field
        default: isPayloadOutside && field.hasPrefix("payload.") ? String(field.dropFirst("payload.".count)) : field
        }
    }
}

extension ActionEnvelope {
    /// Reads an action from the socket. Unknown members are ignored; known ones must not come twice.
    package static func decode(_ text: [UInt8]) throws(ActionError) -> ActionEnvelope {
        try decode(text, plain: .envelope, keyField: nil).envelope
    }

    /// Reads the body of an HTTP request.
    ///
    /// - Parameters:
    ///   - plain: the shape of other bodies than envelopes, which have `key`, or `type` without `actionType`,
    ///     `idempotencyKey` and `id`.
    ///   - keyField: the `Idempotency-Key` header, for bodies without a key.
    ///   - named: members, as JSON texts, that replace those of a whole body's payload.
    package static func decode(
        _ body: [UInt8], plain: ActionShape, keyField: String?, beside named: [(StaticString, [UInt8])] = []
    ) throws(ActionError) -> (envelope: ActionEnvelope, wording: ActionWording) {
        // Array closures do not pass typed errors on.
        let text = body.isEmpty && plain.isWhole ? Array("{}".utf8) : body
        let result: Result<(ActionEnvelope, ActionWording), ActionError> = text.withUnsafeBytes { text in
            do throws(ActionError) {
                let members = try ActionMembers(text, named)
                let wording = members.wording(members.isEnvelope && !plain.isWhole ? .envelope : plain)
                return .success((try members.envelope(wording, keyField: keyField), wording))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}

/// A member of an action that the hub reads.
private enum ActionField: Int, CaseIterable {
    case version, key, deviceID, number, type, payload, base, clientTime, timeZone
    /// Only in the plain shapes.
    case idempotencyKey, id, actionType, rev, timestamp, occurrenceIDs, criteria, takenAt, includeFuture

    /// Stored, because `allCases` is built anew each time.
    static let all = allCases

    var isOfEnvelopes: Bool { rawValue <= ActionField.timeZone.rawValue }

    /// Whether it is not part of the payload in a whole body.
    var isBesideWhole: Bool {
        switch self {
        case .deviceID, .number, .base, .clientTime, .timeZone, .idempotencyKey, .rev, .timestamp: true
        default: false
        }
    }

    var name: StaticString {
        switch self {
        case .version: "v"
        case .key: "key"
        case .deviceID: "deviceId"
        case .number: "n"
        case .type: "type"
        case .payload: "payload"
        case .base: "base"
        case .clientTime: "clientTime"
        case .timeZone: "tz"
        case .idempotencyKey: "idempotencyKey"
        case .id: "id"
        case .actionType: "actionType"
        case .rev: "rev"
        case .timestamp: "timestamp"
        case .occurrenceIDs: "occurrenceIds"
        case .criteria: "criteria"
        case .takenAt: "takenAt"
        case .includeFuture: "includeFuture"
        }
    }
}

/// The members of an action, pointing into its text.
private struct ActionMembers {
    private var values = [JSONValue?](repeating: nil, count: ActionField.all.count)
    private var repeated: [ActionField] = []
    private let text: UnsafeRawBufferPointer
    private let named: [(StaticString, [UInt8])]

    init(_ text: UnsafeRawBufferPointer, _ named: [(StaticString, [UInt8])]) throws(ActionError) {
        (self.text, self.named) = (text, named)
        do throws(JSONError) {
            var reader = try JSONObjectReader(text, maxDepth: ActionLimits.depth)
            while let member = try reader.next() {
                guard let field = ActionField.all.first(where: { member.isNamed($0.name) }) else { continue }
                if values[field.rawValue] != nil { repeated.append(field) }
                values[field.rawValue] = member.value
            }
        } catch {
            throw .keyless(error.kind == .wrongKind ? "An action is a JSON object" : "The action is not valid JSON")
        }
    }

    /// A member's value; null counts as missing.
    private subscript(field: ActionField) -> JSONValue? {
        guard let value = values[field.rawValue], value.kind != .null else { return nil }
        return value
    }

    var isEnvelope: Bool {
        self[.key] != nil
            || self[.type] != nil && self[.actionType] == nil && self[.idempotencyKey] == nil && self[.id] == nil
    }

    /// Whether the type is named as in envelopes and in the clients' queues.
    private var hasType: Bool { self[.type] != nil && self[.actionType] == nil }

    func wording(_ shape: ActionShape) -> ActionWording {
        guard shape != .envelope else { return ActionWording(shape: shape) }
        return ActionWording(
            shape: shape, isPayloadOutside: shape == .plainBulk && self[.payload] == nil || shape.isWhole,
            hasRev: self[.base] == nil && self[.rev] != nil && !keepsRev(shape),
            hasTimestamp: self[.clientTime] == nil && self[.timestamp] != nil, hasType: hasType)
    }

    func envelope(_ wording: ActionWording, keyField: String?) throws(ActionError) -> ActionEnvelope {
        let shape = wording.shape
        // With two of one name, two readers could see different actions.
        let isKnown = { (field: ActionField) in
            shape.isWhole ? field.isBesideWhole : shape != .envelope || field.isOfEnvelopes
        }
        guard !repeated.contains(where: isKnown) else {
            throw .keyless("A member of the action is given twice")
        }
        let key = try key(shape, keyField)
        func fail(_ field: ActionField, _ message: StaticString) -> ActionError {
            .invalid(key: key, path: field.name, message: message, wording)
        }
        func text(_ field: ActionField, bytesMax: Int, _ message: StaticString) throws(ActionError) -> String? {
            guard let value = self[field] else { return nil }
            guard let text = value.string, Self.isText(text, 1...bytesMax) else { throw fail(field, message) }
            return text
        }
        if shape == .envelope, let version = self[.version], version.integer != 1 { throw fail(.version, "must be 1") }
        let deviceID = try text(
            .deviceID, bytesMax: ActionLimits.deviceIDBytes, "must be a string of 1 to 200 bytes")
        let number = self[.number]?.integer
        guard self[.number] == nil || (1...ActionLimits.numberMax).contains(number ?? 0) else {
            throw fail(.number, "must be a whole number, from 1 on")
        }
        guard number == nil || deviceID != nil else { throw fail(.deviceID, "is needed where n is given") }
        guard let type = type(shape) else {
            let isThere = self[shape == .envelope || hasType ? .type : .actionType] != nil
            throw fail(.type, isThere ? "must be a string of at most 64 bytes" : "is required")
        }
        guard let payload = payload(wording) else { throw fail(.payload, "must be an object") }
        guard self[.base] == nil || self[.base]?.kind == .object else { throw fail(.base, "must be an object") }
        let timeZone = try text(
            .timeZone, bytesMax: ActionLimits.timeZoneBytes, "must be the name of a time zone, such as Europe/Berlin")
        let clientTime = self[wording.hasTimestamp ? .timestamp : .clientTime]
        return ActionEnvelope(
            key: key, deviceID: deviceID, number: number, type: type, payload: payload, base: base(wording),
            clientTime: clientTime.map { [UInt8]($0.bytes) }, timeZone: timeZone)
    }

    private func key(_ shape: ActionShape, _ keyField: String?) throws(ActionError) -> String {
        let isQueued = shape == .plain || shape == .plainBulk
        let key =
            self[shape == .envelope ? .key : .idempotencyKey].map { $0.string ?? "" } ?? keyField
            ?? (isQueued ? self[.id].map { $0.string ?? "" } : nil)
        guard let key else {
            throw .keyless(
                shape == .envelope
                    ? "An action needs a key"
                    : "An action needs a key: idempotencyKey, or the header Idempotency-Key")
        }
        guard Self.isText(key, 1...ActionLimits.keyBytes) else {
            throw .keyless("An action's key is a string of 1 to 200 bytes")
        }
        return key
    }

    private func type(_ shape: ActionShape) -> String? {
        // A queue that is sent to one path may hold other actions too.
        if shape == .plainBulk, self[.id] == nil || !hasType { return "bulkMarkAll" }
        if case .whole(let type) = shape { return type }
        guard let type = self[shape == .envelope || hasType ? .type : .actionType]?.string,
            Self.isText(type, 0...ActionLimits.typeBytes)
        else { return nil }
        return type
    }

    private func payload(_ wording: ActionWording) -> [UInt8]? {
        if wording.shape.isWhole { return whole(wording.shape) }
        if wording.isPayloadOutside {
            return object(of: [.occurrenceIDs, .criteria, .takenAt, .includeFuture])
        }
        guard let payload = self[.payload], payload.kind == .object else { return nil }
        return [UInt8](payload.bytes)
    }

    /// Whether `rev` stays in the payload: an object of a rule that is sent back for one of its occurrences has the rule's.
    /// In all other bodies it is the `base`. It must stay so: the digest of an action is of its payload, and a request that
    /// is repeated at a newer hub is the same action.
    private func keepsRev(_ shape: ActionShape) -> Bool {
        guard shape == .whole(type: "updateReminder"),
            var reader = try? JSONObjectReader(text, maxDepth: ActionLimits.depth)
        else { return false }
        while let member = try? reader.next() {
            if member.isNamed("applyTo") { return member.value.equals("occurrence") }
        }
        return false
    }

    private func base(_ wording: ActionWording) -> [UInt8]? {
        wording.hasRev ? object(of: [.rev]) : self[.base].map { [UInt8]($0.bytes) }
    }

    /// The whole text without the members beside the payload, and with the members from path and query.
    private func whole(_ shape: ActionShape) -> [UInt8]? {
        let keepsRev = keepsRev(shape)
        var writer = ByteWriter(capacity: text.count + 64)
        guard var reader = try? JSONObjectReader(text, maxDepth: ActionLimits.depth) else { return nil }
        while let member = try? reader.next() {
            let isBeside = ActionField.all.contains { $0.isBesideWhole && member.isNamed($0.name) }
            let isKept = keepsRev && member.isNamed(ActionField.rev.name)
            if isBeside && !isKept || named.contains(where: { member.isNamed($0.0) }) { continue }
            writer.append(writer.count > 0 ? "," : "{")
            writer.append(member.key.bytes)
            writer.append(":")
            writer.append(member.value.bytes)
        }
        for (name, value) in named {
            writer.append(writer.count > 0 ? "," : "{")
            writer.append(jsonString: name.bytes)
            writer.append(":")
            value.withUnsafeBytes { writer.append($0) }
        }
        writer.append(writer.count > 0 ? "}" : "{}")
        return writer.array
    }

    private func object(of fields: [ActionField]) -> [UInt8] {
        var writer = ByteWriter(capacity: 256)
        writer.append("{")
        for field in fields {
            guard let value = self[field] else { continue }
            if writer.count > 1 { writer.append(",") }
            writer.append(jsonString: field.name.bytes)
            writer.append(":")
            writer.append(value.bytes)
        }
        writer.append("}")
        return writer.array
    }

    /// The database's texts cannot contain NUL.
    private static func isText(_ text: String, _ bounds: ClosedRange<Int>) -> Bool {
        bounds.contains(text.utf8.count) && !text.holds(0)
    }
}
