@testable import Care

/// What tests look up among the stored actions.
extension CareAccount {
    /// How many actions are stored.
    var actionCount: Int { actions.count }

    /// Keys of the actions whose conflicts the user has not settled yet, in the order of bytes.
    var openConflicts: [Identifier] {
        actions.filter { !$0.value.pending.isEmpty && !$0.value.isResolved }.map(\.key).sorted()
    }

    /// Keys of the actions that changed this dose and were undone, or were not, the oldest first.
    func changes(of dose: Identifier, undone: Bool) -> [Identifier] {
        actions.filter { _, action in action.isUndone == undone && action.undo.contains { $0.dose == dose } }
            .sorted { ($0.value.createdAt, $0.key) < ($1.value.createdAt, $1.key) }.map(\.key)
    }

    /// The doses that a stored action changed, and those on which it met a conflict.
    func doses(of action: Identifier) -> [Identifier] {
        guard let action = actions[action] else { return [] }
        return action.undo.map(\.dose) + action.pending.map(\.dose)
    }
}
