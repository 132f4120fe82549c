import Clock
import HubEngine
import Pusher
import Reactor
import Store
import Sync

/// What the console asks of the hub. Any thread. Each loop answers in its turn; `answer` is called once, on the last loop's
/// thread, or never if the hub ends.
extension Gateway {
    /// How long a trace counts. The entries of a busy loop are fewer than that.
    package static let traceTime = Duration.seconds(600)

    private func gather<Part: Sendable>(
        _ part: @escaping @Sendable (LoopSurvey) -> Part, _ answer: @escaping @Sendable ([Part]) -> Void
    ) {
        let gather = ScatterGather(context.mailboxes.count, answer)
        for (index, mailbox) in context.mailboxes.enumerated() {
            mailbox.post(.ask { gather.take(part(LoopSurvey(own: $0)), at: index) })
        }
    }

    private static func start(of time: Duration) -> Instant {
        let now = Instant.read().nanoseconds
        return Instant(nanoseconds: now - min(now, time.wholeNanoseconds))
    }

    /// Connections, of one user of the app or of all; at most `max` of each loop.
    package func connections(
        of user: (id: String, app: App)?, max: Int, _ answer: @escaping @Sendable ([SurveyedConnection]) -> Void
    ) {
        let key = user.map { UserKey($0.id, of: $0.app.index) }
        gather({ $0.connections(of: key, max: max) }, { answer($0.flatMap(\.self)) })
    }

    /// The app's channels whose names begin with `prefix`, and how many are in each; hardly more than `max`.
    package func channels(
        of app: App, prefix: String, max: Int,
        _ answer: @escaping @Sendable (Result<[String: ChannelFacts], StateUnavailable>) -> Void
    ) {
        context.mailboxes[0].post(
            .ask { loop in
                if let all = loop.directory.channels(of: app, prefix: prefix, max: max, answer) { answer(all) }
            })
    }

    /// The last events, the newest first.
    package func events(
        _ filter: SurveyedEventFilter, _ answer: @escaping @Sendable ([SurveyedEvent]) -> Void
    ) {
        let since = Self.start(of: Self.traceTime)
        gather(
            { $0.events(filter, since: since) },
            { parts in
                answer(Array(parts.flatMap(\.self).sorted { $0.at > $1.at }.prefix(filter.max)))
            })
    }

    /// The times from commit to socket of the last events, the shortest first: of each loop's last 256 events of that time.
    package func latencies(within time: Duration, _ answer: @escaping @Sendable ([Duration]) -> Void) {
        let since = Self.start(of: time)
        gather({ $0.times(since: since) }, { answer(SurveyedTimes.latencies($0)) })
    }

    /// What each loop knows of the event at that offset of the user's stream. Without an epoch, of the last one that a loop
    /// knows.
    package func way(
        of stream: StreamID, at offset: Int64, in epoch: Epoch?, app: App,
        _ answer: @escaping @Sendable ([SurveyedWay]) -> Void
    ) {
        let user = UserKey(stream.user, of: app.index)
        let since = Self.start(of: Self.traceTime)
        gather({ $0.way(of: stream, at: offset, in: epoch, user: user, since: since) }, answer)
    }

    /// Publishes to ordinary channels of the app. The answer has what is known of each, in order.
    package func publish(
        _ publications: [Publication], of app: App,
        _ answer: @escaping @Sendable (Result<[ChannelFacts], StateUnavailable>) -> Void
    ) {
        context.mailboxes[0].post(
            .ask { loop in
                if let facts = loop.directory.publish(publications, of: app, tellsFacts: true, answer) {
                    answer(facts)
                }
            })
    }

    /// The users in a presence channel of the app.
    package func users(
        in channel: ChannelName, of app: App,
        _ answer: @escaping @Sendable (Result<[String], StateUnavailable>) -> Void
    ) {
        context.mailboxes[0].post(
            .ask { loop in
                if let users = loop.directory.users(in: channel, of: app, answer) { answer(users) }
            })
    }

    /// Closes all connections that are signed in as that user of the app, and then tells how many they were.
    package func terminate(_ user: String, of app: App, _ answer: @escaping @Sendable (Int) -> Void) {
        let key = UserKey(user, of: app.index)
        gather({ $0.terminate(key) }, { answer($0.reduce(0, +)) })
    }

    /// Asks the database for a snapshot. False in a hub without one.
    package func ask(_ request: SnapshotRequest) -> Bool {
        guard let store = context.store else { return false }
        store.ask(request)
        return true
    }
}
