import Channels
import Pusher
import Reactor

/// The apps that a loop serves, and what becomes of their connections when others are served.
final class ServedApps {
    private(set) var table: AppTable
    private let hub: Hub
    private let due: DueWork
    /// The slot of the next connection that has still to learn of new apps; nil where all have.
    private var nextReplaced: Int?

    /// Connections looked at in one turn after a replacement, and those closed: other clients are served between turns.
    private static let replacedPerTurn = 4_096
    private static let closedPerTurn = 128

    init(_ table: AppTable, _ hub: Hub, _ due: DueWork) {
        self.table = table
        self.hub = hub
        self.due = due
    }

    /// Other apps are served from here on: new connections at once, open ones in turns. False where later ones are already.
    func serve(_ apps: AppTable) -> Bool {
        guard apps.version > table.version else { return false }
        table = apps
        nextReplaced = 0
        due.setNow(.apps)
        return true
    }

    /// The next connections get the new value of their app, or are closed where it is served no more.
    ///
    /// - Parameter replace: gives the session the app that takes its own's place; says whether it is closed.
    func replaceNext(_ replace: (Session, _ app: App?, _ keyIsServed: Bool) -> Bool) {
        guard var slot = nextReplaced else { return }
        let end = min(hub.sessions.slotCount, slot + Self.replacedPerTurn)
        var closed = 0
        while slot < end, closed < Self.closedPerTurn {
            if let session = hub.sessions[slot: slot] {
                let app = table.app(index: session.app.index)
                let keyIsServed = app == nil && table.app(key: session.app.credentials.key) != nil
                if replace(session, app, keyIsServed) { closed += 1 }
            }
            slot += 1
        }
        nextReplaced = slot < hub.sessions.slotCount ? slot : nil
        if nextReplaced != nil { due.setNow(.apps) }
    }

    /// Why a connection of the app is not let in; nil where it is, and is counted then.
    func refusal(of app: App) -> ErrorCode? {
        guard app.features.isEnabled else { return .appDisabled }
        guard app.counts.connections.enter(most: app.limits.connectionsMax) == nil else { return nil }
        app.counts.refused(.connections)
        return .overQuota
    }
}
