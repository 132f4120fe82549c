import Sync

/// An action on its way to the database.
package struct ActionRequest: Sendable {
    /// The user, verified by the hub.
    package let user: String
    /// Whether the app's backend sends it for the user: some types are its alone.
    package let isByApp: Bool
    /// The action, as it was decoded.
    package let envelope: ActionEnvelope
    /// Those that it was sent together with; nil where it is by itself.
    let chain: ActionChain?
    /// Called exactly once, on the store's thread, or on the caller's once the store has stopped; must not block.
    package let answer: @Sendable (ActionAnswer) -> Void

    /// The action of a verified user. `answer` is called exactly once.
    package init(
        user: String, isByApp: Bool = false, envelope: ActionEnvelope, chain: ActionChain? = nil,
        answer: @escaping @Sendable (ActionAnswer) -> Void
    ) {
        self.user = user
        self.isByApp = isByApp
        self.envelope = envelope
        self.chain = chain
        guard let chain else {
            self.answer = answer
            return
        }
        self.answer = {
            chain.answered($0)
            answer($0)
        }
    }
}
