import Clock
import HubEngine
import Identity
import Metrics
import Pusher
import Reactor
import Sync

/// News of owners and the feed that changes sessions of this loop.
extension ClientLoop {
    // MARK: Streams

    func joined(_ joined: StreamJoined) {
        guard let connection = connection(joined.session), let session = connection.session else { return }
        let hasRoom = !connection.isCrowded(settings.limits)
        if let trace, let stream = session.stream(askedAs: joined.serial) { trace.joins(joined, stream) }
        engage(connection) { [now = loop.now] in $0.streams.joined(joined, session, hasRoom: hasRoom, now: now, &$1) }
        if session.isBehind { slowReaders.pull(connection) }
    }

    func joinRefused(_ id: SessionID, _ serial: UInt32, _ refusal: StreamRefusal) {
        guard let connection = connection(id), let session = connection.session else { return }
        switch refusal {
        case .hubFull: metrics.reached(.streams, connection.address)
        case .userFull: metrics.reached(.streamsPerUser, connection.address)
        case .notNameable: break
        }
        engage(connection) { $0.streams.joinRefused(session, serial: serial, refusal, &$1) }
    }

    /// The published topics have changed: sessions in a stream of a new one get its events, past and future.
    func published(_ topics: PublishedTopics) {
        for id in engine.streams.published(topics) {
            if let connection = connection(id) { slowReaders.pull(connection) }
        }
    }

    // MARK: Ordinary channels

    func received(_ answer: ChannelAnswer) {
        switch answer {
        case .entered(let entered):
            if let connection = connection(entered.session), let session = connection.session {
                let hasRoom = !connection.isCrowded(settings.limits)
                return engage(connection) { $0.ordinary.entered(entered, session, hasRoom: hasRoom, &$1) }
            }
        case .refused(let id, let serial, let refusal):
            if let connection = connection(id), let session = connection.session {
                if let bound = refusal.bound {
                    metrics.reached(bound == .app ? .appChannels : .channels, connection.address)
                }
                return engage(connection) { $0.ordinary.refused(session, serial: serial, refusal, &$1) }
            }
        }
        if let exit = engine.ordinary.answeredTooLate(answer) { router.ask(.channel(.exit(exit))) }
    }

    // MARK: Users

    func revoked(_ revocations: [Revocation]) {
        for id in engine.identities.revoked(revocations) { connection(id)?.cutOff(.accessRevoked) }
    }

    /// Closes this loop's connections of the user, and those whose token in verification turns out to be the user's.
    /// - Parameter age: how long ago that was told, if the hub could not hear it: who has signed in since then stays.
    func terminate(_ user: UserKey, told age: Duration? = nil) {
        let time = age.map { UnixTime.read().advanced(by: .zero - $0) }
        // Only that app's users have tokens. Other apps' terminations need not be remembered.
        if age == nil, apps.table.app(index: user.app)?.ownsDatabase == true { identities.terminated(user) }
        for id in engine.sessions.ids(of: user, signedInBefore: time) { connection(id)?.cutOff(.terminated) }
    }

    /// Announces the end of the connection's identity, closes the connection, or schedules the next look.
    func lookAtIdentity(of connection: ClientConnection) {
        guard let session = connection.session else { return }
        var wait: Duration?
        engage(connection) { wait = $0.identities.due(session, &$1) }
        if let wait { identities.watch(connection, after: wait) }
    }

    // MARK: Apps

    func serve(_ table: AppTable) {
        guard apps.serve(table) else { return }
        channels.replace(table)
        users.replace(table)
        replaceApps()
    }

    func replaceApps() {
        apps.replaceNext { session, app, keyIsServed in
            guard let connection = connection(session.id) else { return false }
            engage(connection) { $0.replaceApp(of: session, by: app, keyIsServed: keyIsServed, &$1) }
            return !connection.isEstablished
        }
    }
}
