import Bytes
import JSON
import Sync

/// Actions, in each of their shapes: what is read is within its limits, and an envelope that says it is read the same.
enum ActionProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        for shape in [.envelope, .plain, .plainBulk, .whole(type: "t")] as [ActionShape] {
            for keyField in [nil, "field"] as [String?] {
                let result = Result { () throws(ActionError) in
                    try ActionEnvelope.decode(bytes, plain: shape, keyField: keyField)
                }
                switch result {
                case .success(let read): try checkEnvelope(read.envelope)
                case .failure(.keyless(let message)): try hold(!message.description.isEmpty, "an error without a line")
                case .failure(.invalid(let key, _, _, _)):
                    try hold((1...ActionLimits.keyBytes).contains(key.utf8.count), "a key of \(key.utf8.count) bytes")
                }
            }
        }
    }

    private static func checkEnvelope(_ envelope: ActionEnvelope) throws(Violation) {
        try checkText(envelope.key, 1...ActionLimits.keyBytes)
        try checkText(envelope.type, 0...ActionLimits.typeBytes)
        if let deviceID = envelope.deviceID { try checkText(deviceID, 1...ActionLimits.deviceIDBytes) }
        if let timeZone = envelope.timeZone { try checkText(timeZone, 1...ActionLimits.timeZoneBytes) }
        if let number = envelope.number {
            try hold((1...ActionLimits.numberMax).contains(number) && envelope.deviceID != nil, "number \(number)")
        }
        // What is put together of a plain one's members may lie a level deeper than they did.
        let depth = ActionLimits.depth + 1
        try hold(kind(envelope.payload, depth) == .object, "a payload that is no object")
        if let base = envelope.base { try hold(kind(base, depth) == .object, "a base that is no object") }
        if let time = envelope.clientTime { try hold(kind(time, depth) != nil, "a time that is not JSON") }
        guard kind(envelope.payload, ActionLimits.depth - 1) != nil else { return }
        let again = try succeed("an envelope, said anew") { () throws(ActionError) in
            try ActionEnvelope.decode(text(of: envelope))
        }
        try hold(
            again.key == envelope.key && again.deviceID == envelope.deviceID && again.number == envelope.number
                && again.type == envelope.type && again.payload == envelope.payload && again.base == envelope.base
                && again.clientTime == envelope.clientTime && again.timeZone == envelope.timeZone,
            "an envelope, said anew, is another")
    }

    private static func checkText(_ text: String, _ bounds: ClosedRange<Int>) throws(Violation) {
        try hold(bounds.contains(text.utf8.count), "a text of \(text.utf8.count) bytes, not \(bounds)")
        try hold(!text.utf8.contains(0), "a NUL, which the database's texts cannot hold")
    }

    private static func kind(_ text: [UInt8], _ depth: Int) -> JSONKind? {
        withView(text) { (try? JSONValue.parse($0, maxDepth: depth))?.kind }
    }

    private static func text(of envelope: ActionEnvelope) -> [UInt8] {
        written { writer in
            writer.append(#"{"v":1,"key":"#)
            writer.append(jsonString: envelope.key)
            writer.append(#","type":"#)
            writer.append(jsonString: envelope.type)
            writer.append(#","payload":"#)
            writer.append(envelope.payload)
            if let deviceID = envelope.deviceID {
                writer.append(#","deviceId":"#)
                writer.append(jsonString: deviceID)
            }
            if let number = envelope.number {
                writer.append(#","n":"#)
                writer.append(decimal: number)
            }
            if let base = envelope.base {
                writer.append(#","base":"#)
                writer.append(base)
            }
            if let time = envelope.clientTime {
                writer.append(#","clientTime":"#)
                writer.append(time)
            }
            if let timeZone = envelope.timeZone {
                writer.append(#","tz":"#)
                writer.append(jsonString: timeZone)
            }
            writer.append("}")
        }
    }
}
