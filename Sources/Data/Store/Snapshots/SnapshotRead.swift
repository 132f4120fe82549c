import Bytes
import Clock
import Postgres
import Reactor

/// A snapshot request, from `ask` to its answer.
final class SnapshotRead: Request {
    private unowned let pool: SnapshotPool
    private let function: SnapshotFunction
    /// Executions that met an outdated plan.
    private var races = 0
    private let answer: @Sendable (SnapshotAnswer) -> Void

    /// Nil if a text holds a NUL byte, or the arguments do not match the function: no such user or thing exists.
    init?(_ request: SnapshotRequest, deadline: Instant, _ pool: SnapshotPool) {
        guard request.arguments.count == request.function.argumentCount,
            let parameters = CStringList([request.user] + request.arguments)
        else { return nil }
        self.pool = pool
        function = request.function
        answer = request.answer
        super.init(
            Terms(
                kind: 0, of: TextKey(request.user), request.function.statement, parameters,
                within: request.function.timeout, deadline: deadline))
    }

    override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep {
        switch answer {
        case .success(let rows):
            finish(SnapshotAnswer(rows))
        case .failure(let error):
            races += 1
            if error.advice == .outdated, races < StoreLimits.racesMax { return .again }
            if let code = error.sqlstate?.code, function.refusals.contains(code) {
                finish(.refused(code))
            } else {
                finish(pool.failed(error))
            }
        }
        return .done
    }

    override func ended(_ end: RequestFailure) { finish(pool.unavailable) }

    private func finish(_ answer: SnapshotAnswer) {
        if !isOver { self.answer(answer) }
    }
}
