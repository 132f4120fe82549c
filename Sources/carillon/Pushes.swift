import Courier
import Logging
import Outbox
import Pusher
import Reactor

/// The outbox of pushes and their sender, which hand each other claimed pushes and their outcomes.
final class Pushes: Sendable {
    let outbox: Outbox
    private let sender: PushSender
    private let settings: PushSettings
    private let logger: Logger
    private let keys: Locked<PushSettings.KeyFiles>

    /// The job after which pushes may wait.
    static let firingJob = "fire_reminders"

    /// Starts both; nil where no provider is set, so that pushes wait for a hub with one.
    ///
    /// - Throws: a `Failure` of one clear line.
    static func start(_ settings: Settings, _ metrics: HubMetrics, _ logger: Logger) throws(Failure) -> Pushes? {
        let keys = try settings.push.keyFiles()
        let configuration = try settings.push.configuration(settings, keys)
        guard let url = settings.databaseURL, configuration.hasProvider else { return nil }
        do {
            let door = Locked<Outbox?>(nil)
            let sender = try PushSender(configuration, metrics: metrics.pushes, logger: logger) { outcomes in
                door.withLock { $0 }?.settle(outcomes)
            }
            var places = OutboxConfiguration(connectionString: url)
            places.showsLabels = settings.push.showLabels
            // Held until the outbox is there: outcomes of its first claim wait.
            let outbox = try door.withLock { door in
                let made = Result {
                    try Outbox.start(places, logger: logger, metrics: metrics.outbox, postgres: metrics.postgres) {
                        sender.post($0)
                    }
                }
                door = try? made.get()
                return made
            }.get()
            return Pushes(outbox, sender, settings.push, keys, logger)
        } catch {
            throw Failure("pushes: \(error)")
        }
    }

    private init(
        _ outbox: Outbox, _ sender: PushSender, _ settings: PushSettings, _ keys: PushSettings.KeyFiles,
        _ logger: Logger
    ) {
        (self.outbox, self.sender, self.settings, self.logger) = (outbox, sender, settings, logger)
        self.keys = Locked(keys)
    }

    /// Claims at once.
    func look() {
        outbox.look()
    }

    /// Signs requests to the webhook by other credentials.
    func replace(_ credentials: AppCredentials) {
        var accounts = PushAccounts()
        accounts.webhook = credentials
        sender.take(accounts)
    }

    /// Reads the key files anew. If one is broken, both keys stay. A key that is as it was stays in use, with its token:
    /// Apple refuses tokens that change often.
    func reload() {
        do throws(Failure) {
            let files = try settings.keyFiles()
            let known = keys.withLock { $0 }
            var accounts = PushAccounts()
            if files.apns != known.apns { accounts.apns = try settings.apnsAccount(files) }
            if files.fcm != known.fcm { accounts.fcm = try settings.fcmAccount(files) }
            let new = [("apns", accounts.apns != nil), ("fcm", accounts.fcm != nil)].filter(\.1).map(\.0)
            guard !new.isEmpty else { return }
            sender.take(accounts)
            keys.withLock { $0 = files }
            logger.notice("keys of pushes read anew", metadata: ["platforms": "\(new.joined(separator: ", "))"])
        } catch {
            logger.error("keys of pushes stay as they were", metadata: ["reason": "\(error)"])
        }
    }

    /// Claims nothing any more, waits two seconds for answers, and settles what they say. What is left is another hub's
    /// when its lease ends.
    func stop() {
        outbox.stopClaiming()
        sender.stop(within: .seconds(2))
        outbox.stop(within: .seconds(1))
    }
}
