import Sync

/// An action on its way to the database.
package struct ActionRequest: Sendable {
    /// Who does it, as the hub has verified.
    package let user: String
    package let envelope: ActionEnvelope
    /// Called exactly once, on the store's thread or, once the store has stopped, on the caller's; must not wait.
    package let answer: @Sendable (ActionAnswer) -> Void

    package init(user: String, envelope: ActionEnvelope, answer: @escaping @Sendable (ActionAnswer) -> Void) {
        self.user = user
        self.envelope = envelope
        self.answer = answer
    }
}
