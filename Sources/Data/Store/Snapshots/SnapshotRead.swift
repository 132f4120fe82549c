import Bytes
import Clock
import Postgres
import Reactor

/// A question for a snapshot, from `ask` to its answer.
final class SnapshotRead {
    /// All of them, for a connection to prepare.
    static let statements = [day, month, occurrence, reminders]

    private static let day = call("sync.adherence_day($1::text, $2::date)")
    private static let month = call("sync.adherence_month($1::text, $2::date)")
    private static let occurrence = call("sync.adherence_occurrence($1::text, $2::text)")
    private static let reminders = call("sync.reminders($1::text)")

    /// Who asks.
    let user: TextKey
    let statement: PreparedStatement
    let parameters: CStringList
    /// When it is answered `unavailable` at the latest.
    let deadline: Instant
    /// When it was sent last.
    var sentAt: Instant
    /// Connections that ended while it was under way on them.
    var losses = 0
    /// Executions that met an outdated plan.
    var races = 0
    /// Whether it has its answer. It may be under way nevertheless.
    private(set) var isAnswered = false
    private let answer: @Sendable (SnapshotAnswer) -> Void

    /// `nil` where a text holds a NUL, which PostgreSQL's cannot: there is no such user and no such dose.
    init?(_ request: SnapshotRequest, now: Instant, timeout: Duration) {
        let list: CStringList?
        switch request.subject {
        case .day(let day):
            statement = Self.day
            list = CStringList([request.user, day])
        case .month(let firstDay):
            statement = Self.month
            list = CStringList([request.user, firstDay])
        case .occurrence(let id):
            statement = Self.occurrence
            list = CStringList([request.user, id])
        case .reminders:
            statement = Self.reminders
            list = CStringList([request.user])
        }
        guard let list else { return nil }
        parameters = list
        user = TextKey(request.user)
        deadline = now.advanced(by: timeout)
        sentAt = now
        answer = request.answer
    }

    /// Answers, unless it is answered.
    func finish(_ answer: SnapshotAnswer) {
        guard !isAnswered else { return }
        isAnswered = true
        self.answer(answer)
    }

    private static func call(_ function: String) -> PreparedStatement {
        PreparedStatement("SELECT epoch, top, body FROM \(function)")
    }
}
