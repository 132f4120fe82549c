/// How a row is changed; each change is one revision.
enum Manner {
    /// By UPDATE, as a backend does.
    case update
    /// By sync.apply, as the hub does: markTaken, then its undo. Doses only.
    case action
    /// By UPDATE, with a NOTIFY of the row's id, for a client that listens to PostgreSQL itself.
    case notifyingUpdate

    /// The channel of a `notifyingUpdate`.
    static let channel = "loadtest"
}

/// A device's action number `n`, from 1: it takes a dose and then undoes that, row by row.
///
/// Each applied action is one revision of its row, so a row at an odd revision is due for markTaken.
struct MannerStep: Equatable {
    /// In the device's own order.
    let number: Int
    /// Among the device's rows.
    let row: Int
    /// Undo of the previous action, or markTaken.
    let isUndo: Bool

    /// Step `number`, from 1, of a device with `rows` rows.
    init(_ number: Int, rows: Int) {
        self.number = number
        row = (number - 1) / 2 % max(1, rows)
        isUndo = number % 2 == 0
    }
}
