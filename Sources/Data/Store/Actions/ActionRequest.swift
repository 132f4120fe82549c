import Sync

/// An action on its way to the database.
package struct ActionRequest: Sendable {
    /// The user, verified by the hub.
    package let user: String
    /// Whether the app's backend sends it for the user: some types are its alone.
    package let isByApp: Bool
    /// The action, as it was decoded.
    package let envelope: ActionEnvelope
    /// Called exactly once, on the store's thread, or on the caller's once the store has stopped; must not block.
    package let answer: @Sendable (ActionAnswer) -> Void

    /// The action of a verified user. `answer` is called exactly once.
    package init(
        user: String, isByApp: Bool = false, envelope: ActionEnvelope,
        answer: @escaping @Sendable (ActionAnswer) -> Void
    ) {
        self.user = user
        self.isByApp = isByApp
        self.envelope = envelope
        self.answer = answer
    }
}
