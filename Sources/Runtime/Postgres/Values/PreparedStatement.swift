/// A statement that a connection prepares once. Compared by identity: create one per SQL text and keep it.
package final class PreparedStatement: Sendable {
    /// The SQL; it casts its parameters to their types.
    package let sql: String

    /// Each connection prepares it at its first use.
    package init(_ sql: String) {
        self.sql = sql
    }
}
