import Logging
import Postgres

extension FaultLog {
    /// Logs an action's error, except for locks and lost races, which are no faults.
    func tell(ofAction error: PostgresError) {
        switch error.advice {
        case .again, .outdated, .locked: break
        case .constraint, .refused: tell(error, .warning)
        case .readOnly, .unavailable, .failed, .broken: tell(error)
        }
    }
}
