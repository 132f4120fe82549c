import Sync

/// An action on its way to the database.
package struct ActionRequest: Sendable {
    /// The user, verified by the hub.
    package let user: String
    /// The action, as it was decoded.
    package let envelope: ActionEnvelope
    /// Called exactly once, on the store's thread, or on the caller's once the store has stopped; must not block.
    package let answer: @Sendable (ActionAnswer) -> Void

    /// The action of a verified user. `answer` is called exactly once.
    package init(user: String, envelope: ActionEnvelope, answer: @escaping @Sendable (ActionAnswer) -> Void) {
        self.user = user
        self.envelope = envelope
        self.answer = answer
    }
}
