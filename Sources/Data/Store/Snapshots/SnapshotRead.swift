import Bytes
import Clock
import Postgres
import Reactor

/// A question for a snapshot, from `ask` to its answer.
final class SnapshotRead {
    /// Who asks.
    let user: TextKey
    let function: SnapshotFunction
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

    /// `nil` where a text holds a NUL, which PostgreSQL's cannot: there is no such user and no such thing.
    init?(_ request: SnapshotRequest, now: Instant, timeout: Duration) {
        guard request.arguments.count == request.function.argumentCount,
            let parameters = CStringList([request.user] + request.arguments)
        else { return nil }
        self.parameters = parameters
        function = request.function
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
}
