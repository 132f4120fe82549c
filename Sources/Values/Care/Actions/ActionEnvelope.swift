import JSON

/// An action as a device sends it, before anything in it is judged.
package struct ActionEnvelope: Sendable {
    /// The device's name for this action, the same each time it is sent.
    package var key: Identifier
    /// The device and its number for the action; without a number no order is asked for.
    package var device: Identifier?
    package var number: Int64?
    /// One of `DoseAction.types`.
    package var type: String
    /// What the type needs.
    package var payload: JSONTree?
    /// The revisions that the device had seen.
    package var base: JSONTree?
    /// When the user acted, by the device's clock.
    package var clientTime: JSONTree?
    /// The zone in which the user is, where that matters.
    package var zone: String?

    /// An envelope.
    package init(
        key: Identifier, device: Identifier? = nil, number: Int64? = nil, type: String, payload: JSONTree?,
        base: JSONTree? = nil, clientTime: JSONTree? = nil, zone: String? = nil
    ) {
        self.key = key
        self.device = device
        self.number = number
        self.type = type
        self.payload = payload
        self.base = base
        self.clientTime = clientTime
        self.zone = zone
    }

    /// What makes it the same action again: type, payload and base, however they are spelled.
    var content: Identifier {
        Identifier(JSONTree.array([.string(type), payload ?? .null, base ?? .null]).canonicalText)
    }
}
