import Courier
import Logging
import Outbox
import Pusher
import Reactor

/// The outbox of pushes and their sender, which hand each other claimed pushes and their outcomes.
final class Pushes: Sendable {
    let outbox: Outbox
    private let sender: PushSender

    /// The job after which pushes may wait.
    static let firingJob = "fire_reminders"

    /// Starts both; nil where no provider is set, so that pushes wait for a hub with one.
    ///
    /// - Throws: a `Failure` of one clear line.
    static func start(_ settings: Settings, _ metrics: HubMetrics, _ logger: Logger) throws(Failure) -> Pushes? {
        let configuration = try settings.push.configuration(settings)
        guard let url = settings.database.url, configuration.hasProvider else { return nil }
        do {
            let started = Locked<Outbox?>(nil)
            let sender = try PushSender(configuration, metrics: metrics.pushes, logger: logger) { outcomes in
                started.withLock { $0 }?.settle(outcomes)
            }
            var database = OutboxConfiguration(connectionString: url)
            database.showsLabels = settings.push.showLabels
            // Held until the outbox is there: outcomes of its first claim wait.
            let outbox = try started.withLock { started in
                let made = Result {
                    try Outbox.start(database, logger: logger, metrics: metrics.outbox, postgres: metrics.postgres) {
                        sender.post($0)
                    }
                }
                started = try? made.get()
                return made
            }.get()
            return Pushes(outbox, sender)
        } catch {
            throw Failure("pushes: \(error)")
        }
    }

    private init(_ outbox: Outbox, _ sender: PushSender) {
        (self.outbox, self.sender) = (outbox, sender)
    }

    /// Claims at once.
    func look() {
        outbox.look()
    }

    /// Signs requests to the webhook by other credentials.
    func replace(_ credentials: AppCredentials) {
        sender.replace(credentials)
    }

    /// Claims nothing any more, waits two seconds for answers, and settles what they say. What is left is another hub's
    /// when its lease ends.
    func stop() {
        outbox.stopClaiming()
        sender.stop(within: .seconds(2))
        outbox.stop(within: .seconds(1))
    }
}
