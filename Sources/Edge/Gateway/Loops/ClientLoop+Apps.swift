import Channels
import Pusher
import Reactor

/// Apps on a loop: whose connections these are, and what becomes of them when the table is replaced.
extension ClientLoop {
    /// Connections looked at in one turn after a replacement, and those closed: other clients are served between turns.
    private static let replacedPerTurn = 4_096
    private static let closedPerTurn = 128

    /// Other apps are served from here on: new connections at once, open ones in turns.
    func serve(_ apps: AppTable) {
        guard apps.version > self.apps.version else { return }
        self.apps = apps
        for app in apps.apps { channelHome.replace(app) }
        let isUnderWay = nextReplaced != nil
        nextReplaced = 0
        if !isUnderWay { replaceApps() }
    }

    /// The next connections get the new value of their app, or are closed where it is served no more.
    func replaceApps() {
        guard var slot = nextReplaced else { return }
        let end = min(hub.slotCount, slot + Self.replacedPerTurn)
        var closed = 0
        while slot < end, closed < Self.closedPerTurn {
            if let session = hub.session(inSlot: slot), let connection = connection(session.id) {
                let app = apps.app(index: session.app.index)
                let keyIsServed = app == nil && apps.app(key: session.app.credentials.key) != nil
                engage(connection) { $0.replaceApp(of: session, by: app, keyIsServed: keyIsServed, &$1) }
                if !connection.isEstablished { closed += 1 }
            }
            slot += 1
        }
        nextReplaced = slot < hub.slotCount ? slot : nil
        if nextReplaced != nil { mailbox.post(.replaceApps) }
    }

    /// Why a connection of the app is not let in; nil where it is, and is counted then.
    func refusal(of app: App) -> ErrorCode? {
        guard app.features.isEnabled else { return .appDisabled }
        guard app.counts.connections.enter(most: app.limits.connectionsMax) == nil else { return nil }
        app.counts.refused(.connections)
        return .overQuota
    }

    /// A connection that was counted has ended.
    func left(_ app: App) {
        app.counts.connections.leave()
    }
}
