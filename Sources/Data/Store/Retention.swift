import Postgres
import Reactor

/// Has the database delete old events and actions, batch by batch, when no action waits.
///
/// Every hub of a database does it: `sync.retain` deletes what is there, and one that meets another's locks comes back
/// the next time.
final class Retention {
    static let statement = PreparedStatement("SELECT sync.retain($1::int, $2::int)")

    private let interval: Duration
    private let batch: Int
    private let send: (CStringList) -> Void
    private let parameters: CStringList
    private var due: Alarm?
    private var isUnderWay = false

    /// - Parameter send: has one sent; `done` or `failed` follows.
    init(
        _ loop: EventLoop, _ configuration: StoreConfiguration, _ send: @escaping (CStringList) -> Void
    ) throws(ReactorError) {
        interval = configuration.retainInterval
        batch = configuration.retainBatch
        self.send = send
        parameters = CStringList([String(configuration.retainDays), String(batch)]) ?? CStringList()
        due = try Alarm(loop) { [weak self] in self?.tell() }
        guard configuration.retainDays > 0 else { return }
        due?.set(after: Self.spread(configuration.retainDelay))
    }

    /// No statement is sent any more.
    func stop() {
        due?.unset()
        due = nil
    }

    /// The one under way came to its end: as many rows went, or it failed.
    func done(_ count: Int?) {
        isUnderWay = false
        // Actions that have come meanwhile go first.
        due?.set(after: count ?? 0 >= batch ? StoreLimits.retainPause : Self.spread(interval))
    }

    /// There is no connection.
    func failed() {
        isUnderWay = false
        due?.set(after: StoreLimits.retainRetry)
    }

    private func tell() {
        guard !isUnderWay else { return }
        isUnderWay = true
        send(parameters)
    }

    /// From three quarters of `duration` to five: hubs that started together come apart.
    private static func spread(_ duration: Duration) -> Duration {
        duration * Double.random(in: 0.75...1.25)
    }
}
