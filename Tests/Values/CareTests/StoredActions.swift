@testable import Care

/// Look-ups in stored actions, for tests.
extension CareAccount {
    var actionCount: Int { actions.count }

    /// Keys of actions with unresolved conflicts, in byte order.
    var openConflicts: [Identifier] {
        actions.filter { !$0.value.pending.isEmpty && !$0.value.isResolved }.map(\.key).sorted()
    }

    /// Keys of the actions that changed this dose, undone ones or others, oldest first.
    func changes(of dose: Identifier, undone: Bool) -> [Identifier] {
        actions.filter { _, action in action.isUndone == undone && action.undo.contains { $0.dose == dose } }
            .sorted { ($0.value.createdAt, $0.key) < ($1.value.createdAt, $1.key) }.map(\.key)
    }

    /// The doses that a stored action changed, and those where it met a conflict.
    func doses(of action: Identifier) -> [Identifier] {
        guard let action = actions[action] else { return [] }
        return action.undo.map(\.dose) + action.pending.map(\.dose)
    }
}
