/// A statement that connections prepare once and execute often. Known by its identity: make one for each text, and keep
/// it.
package final class PreparedStatement: Sendable {
    /// The statement; the types of its parameters are written into it.
    package let sql: String

    package init(_ sql: String) {
        self.sql = sql
    }
}
