import Postgres
import Reactor

/// Has the database delete old events and actions in batches when no action waits. Every hub does so: `sync.retain` deletes
/// what it finds, and a hub that meets another's locks tries again next time.
final class Retention {
    static let statement = PreparedStatement("SELECT sync.retain($1::int, $2::int)")

    private let interval: Duration
    private let batch: Int
    private let send: (CStringList) -> Void
    private let parameters: CStringList
    private var due: Alarm?
    private var isUnderWay = false

    /// - Parameter send: sends the statement; `done` or `failed` follows.
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

    /// Sends no more statements.
    func stop() {
        due?.unset()
        due = nil
    }

    /// The statement in flight has deleted `count` rows; nil if it failed.
    func done(_ count: Int?) {
        isUnderWay = false
        // Actions that came meanwhile go first.
        due?.set(after: count ?? 0 >= batch ? StoreLimits.retainPause : Self.spread(interval))
    }

    /// There was no connection.
    func failed() {
        isUnderWay = false
        due?.set(after: StoreLimits.retainRetry)
    }

    private func tell() {
        guard !isUnderWay else { return }
        isUnderWay = true
        send(parameters)
    }

    /// A random duration of 75 to 125 percent, so that hubs that started together drift apart.
    private static func spread(_ duration: Duration) -> Duration {
        duration * Double.random(in: 0.75...1.25)
    }
}
