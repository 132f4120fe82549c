import Bytes
import JSON

/// Why an action cannot be handed to the database. Nothing is stored of it.
package enum ActionError: Error, Sendable {
    /// No key to answer to: the text is no JSON object, or its key is none. The line is for the app's developer.
    case keyless(StaticString)
    /// A field that the hub checks is wrong; `path` is its name in an envelope.
    case invalid(key: String, path: StaticString, message: StaticString, ActionWording)
}

/// How an action is written.
package enum ActionShape: Sendable, Equatable {
    /// `{v, key, deviceId, n, type, payload, base, clientTime, tz}`, on the socket and by HTTP.
    case envelope
    /// `{idempotencyKey, actionType, payload, …}`: what the apps' REST clients send.
    case plain
    /// `{idempotencyKey, occurrenceIds | criteria, takenAt, includeFuture, …}`: a `bulkMarkAll` of such clients, who may
    /// also put those into a `payload`, as they are in their queues.
    case plainBulk
    /// `{…}`, an action of that type: the body is its payload, but for `idempotencyKey`, `deviceId`, `n`, `base` or `rev`,
    /// `clientTime` or `timestamp`, and `tz`. Never an envelope; an empty body is `{}`.
    case whole(type: String)

    /// Whether the body is the payload.
    package var isWhole: Bool { if case .whole = self { true } else { false } }
}

/// How one action was written, so that an answer names a field as its client did.
package struct ActionWording: Sendable, Equatable {
    package let shape: ActionShape
    /// What an envelope has in `payload` stands beside it.
    fileprivate var isPayloadOutside = false
    /// `rev` stands for `base`.
    fileprivate var hasRev = false
    /// `timestamp` stands for `clientTime`.
    fileprivate var hasTimestamp = false

    /// What the client calls a field, such as `payload.takenAt`, that is at fault.
    package func path(ofField field: String) -> String {
        switch field {
        case "type": shape == .plain ? "actionType" : field
        case "clientTime": hasTimestamp ? "timestamp" : field
        case "base": hasRev ? "rev" : field
        default: isPayloadOutside && field.hasPrefix("payload.") ? String(field.dropFirst("payload.".count)) : field
        }
    }
}

extension ActionEnvelope {
    /// Reads an action as it comes on the socket. Unknown members are ignored; known ones must not come twice.
    package static func decode(_ text: [UInt8]) throws(ActionError) -> ActionEnvelope {
        try decode(text, plain: .envelope, keyField: nil).envelope
    }

    /// Reads the body of an HTTP request.
    ///
    /// - Parameters:
    ///   - plain: the shape of a body that is no envelope: one is what has a `key`, or a `type` and neither
    ///     `actionType` nor `idempotencyKey`.
    ///   - keyField: the field `Idempotency-Key`, for bodies without a key.
    ///   - named: members, as JSON texts, that the payload of a whole body has in place of its own.
    package static func decode(
        _ body: [UInt8], plain: ActionShape, keyField: String?, beside named: [(StaticString, [UInt8])] = []
    ) throws(ActionError) -> (envelope: ActionEnvelope, wording: ActionWording) {
        // Arrays do not pass typed errors on.
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

/// The members that an action may have.
private enum ActionField: Int, CaseIterable {
    case version, key, deviceID, number, type, payload, base, clientTime, timeZone
    /// Of the plain shapes.
    case idempotencyKey, actionType, rev, timestamp, occurrenceIDs, criteria, takenAt, includeFuture

    /// Kept, for `allCases` is made anew each time.
    static let all = allCases

    var isOfEnvelopes: Bool { rawValue <= ActionField.timeZone.rawValue }

    /// Whether it stands in a whole body beside the payload.
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

    /// A member's value; a null is none.
    private subscript(field: ActionField) -> JSONValue? {
        guard let value = values[field.rawValue], value.kind != .null else { return nil }
        return value
    }

    var isEnvelope: Bool {
        self[.key] != nil || self[.type] != nil && self[.actionType] == nil && self[.idempotencyKey] == nil
    }

    func wording(_ shape: ActionShape) -> ActionWording {
        guard shape != .envelope else { return ActionWording(shape: shape) }
        return ActionWording(
            shape: shape, isPayloadOutside: shape == .plainBulk && self[.payload] == nil || shape.isWhole,
            hasRev: self[.base] == nil && self[.rev] != nil,
            hasTimestamp: self[.clientTime] == nil && self[.timestamp] != nil)
    }

    func envelope(_ wording: ActionWording, keyField: String?) throws(ActionError) -> ActionEnvelope {
        let shape = wording.shape
        // Two of a name would be two actions to two readers.
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
            let isThere = self[shape == .envelope ? .type : .actionType] != nil
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
        let key = self[shape == .envelope ? .key : .idempotencyKey].map { $0.string ?? "" } ?? keyField
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
        if shape == .plainBulk { return "bulkMarkAll" }
        if case .whole(let type) = shape { return type }
        guard let type = self[shape == .envelope ? .type : .actionType]?.string,
            Self.isText(type, 0...ActionLimits.typeBytes)
        else { return nil }
        return type
    }

    private func payload(_ wording: ActionWording) -> [UInt8]? {
        if wording.shape.isWhole { return whole() }
        if wording.isPayloadOutside {
            return object(of: [.occurrenceIDs, .criteria, .takenAt, .includeFuture])
        }
        guard let payload = self[.payload], payload.kind == .object else { return nil }
        return [UInt8](payload.bytes)
    }

    private func base(_ wording: ActionWording) -> [UInt8]? {
        wording.hasRev ? object(of: [.rev]) : self[.base].map { [UInt8]($0.bytes) }
    }

    /// The whole text without what stands beside the payload, and with what the path and the query say.
    private func whole() -> [UInt8]? {
        var writer = ByteWriter(capacity: text.count + 64)
        guard var reader = try? JSONObjectReader(text, maxDepth: ActionLimits.depth) else { return nil }
        while let member = try? reader.next() {
            let isBeside = ActionField.all.contains { $0.isBesideWhole && member.isNamed($0.name) }
            if isBeside || named.contains(where: { member.isNamed($0.0) }) { continue }
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

    /// An object of those of the members that are there.
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

    /// The database's texts hold no NUL.
    private static func isText(_ text: String, _ bounds: ClosedRange<Int>) -> Bool {
        bounds.contains(text.utf8.count) && !text.holds(0)
    }
}
