/// One run of a hub, among all hubs that share a state. A hub that starts again has another id.
package struct HubID: Hashable, Sendable {
    /// The id as a number.
    package let number: UInt64

    /// The hub of this number.
    package init(_ number: UInt64) { self.number = number }

    /// The one hub of a state in its own memory. No hub with a link has this number.
    package static let only = HubID(0)
}
