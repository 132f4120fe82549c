/// An action from a device: the fields that the hub reads, and the rest as JSON text for the database.
///
/// Contains health data: never log it.
package struct ActionEnvelope: Sendable {
    /// The idempotency key: 1 to 200 bytes, no NUL.
    package let key: String
    /// The sending device, when it numbers its actions: 1 to 200 bytes.
    package let deviceID: String?
    /// The action's number on the device, from 1.
    package let number: Int64?
    /// The type, at most 64 bytes. The database rejects unknown ones.
    package let type: String
    /// A JSON object.
    package let payload: [UInt8]
    /// A JSON object: the revision that the device saw.
    package let base: [UInt8]?
    /// A JSON string or number: when the user acted, by the device's clock.
    package let clientTime: [UInt8]?
    /// An IANA time zone.
    package let timeZone: String?

    /// The caller has checked the fields against `ActionLimits`.
    package init(
        key: String, deviceID: String? = nil, number: Int64? = nil, type: String, payload: [UInt8],
        base: [UInt8]? = nil, clientTime: [UInt8]? = nil, timeZone: String? = nil
    ) {
        self.key = key
        self.deviceID = deviceID
        self.number = number
        self.type = type
        self.payload = payload
        self.base = base
        self.clientTime = clientTime
        self.timeZone = timeZone
    }
}
