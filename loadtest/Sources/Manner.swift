/// How a row is changed, each change being one revision.
enum Manner {
    /// By UPDATE, as a backend does.
    case update
    /// By sync.apply, as the hub does: markTaken, and in the next turn its undo. Doses only.
    case action
    /// By UPDATE, with a NOTIFY of the row's id, for a client that listens to PostgreSQL itself.
    case notifyingUpdate

    /// The channel of a `notifyingUpdate`.
    static let channel = "loadtest"
}

/// What a device does as its action number `n`, from 1: it takes a dose, and then undoes that, row after row.
///
/// Each applied action is one revision of its row, so that a row at revision `r` is due for markTaken where `r` is odd.
struct MannerStep: Equatable {
    /// In the device's own order.
    let number: Int
    /// Among the device's rows.
    let row: Int
    /// Undo of the action before, or markTaken.
    let isUndo: Bool

    /// The step number `number`, from 1, of a device with `rows` rows.
    init(_ number: Int, rows: Int) {
        self.number = number
        row = (number - 1) / 2 % max(1, rows)
        isUndo = number % 2 == 0
    }
}
