import JSON

/// An action from a device, before any check.
package struct CareEnvelope: Sendable {
    /// The device's key for this action, the same for each retry.
    package var key: Identifier
    /// The device and its number for the action. Without a number, the order is not checked.
    package var device: Identifier?
    /// The device's number of the action.
    package var number: Int64?
    /// One of `DoseAction.types`.
    package var type: String
    /// The payload for the type.
    package var payload: JSONTree?
    /// The revisions that the device had seen.
    package var base: JSONTree?
    /// When the user acted, by the device's clock.
    package var clientTime: JSONTree?
    /// The user's time zone, where it matters.
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

    /// The content that identifies a repeat: type, payload and base, in canonical form.
    var content: Identifier {
        Identifier(JSONTree.array([.string(type), payload ?? .null, base ?? .null]).canonicalText)
    }
}
