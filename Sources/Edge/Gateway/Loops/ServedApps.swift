import HubEngine
import Pusher
import Reactor

/// The apps that a loop serves, and the update of their connections when the apps are replaced.
final class ServedApps {
    private(set) var table: AppTable
    private let engine: SessionEngine
    private let due: DueWork
    /// The slot of the next connection that has to learn of new apps; nil where all have.
    private var nextReplaced: Int?

    /// Connections visited in one turn after a replacement, and closed in one turn. Other clients are served between turns.
    private static let replacedPerTurn = 4_096
    private static let closedPerTurn = 128

    init(_ table: AppTable, _ engine: SessionEngine, _ due: DueWork) {
        self.table = table
        self.engine = engine
        self.due = due
    }

    /// Serves these apps from now on: to new connections at once, to open ones in turns. False for an older table.
    func serve(_ apps: AppTable) -> Bool {
        guard apps.version > table.version else { return false }
        table = apps
        nextReplaced = 0
        due.setNow(.apps)
        return true
    }

    /// The next connections get the new value of their app, or are closed where it is no longer served.
    ///
    /// - Parameter replace: gives the session its app's new value. Returns whether the connection was closed.
    func replaceNext(_ replace: (Session, _ app: App?, _ keyIsServed: Bool) -> Bool) {
        guard var slot = nextReplaced else { return }
        let end = min(engine.sessions.slotCount, slot + Self.replacedPerTurn)
        var closed = 0
        while slot < end, closed < Self.closedPerTurn {
            if let session = engine.sessions[slot: slot] {
                let app = table.app(index: session.app.index)
                let keyIsServed = app == nil && table.app(key: session.app.credentials.key) != nil
                if replace(session, app, keyIsServed) { closed += 1 }
            }
            slot += 1
        }
        nextReplaced = slot < engine.sessions.slotCount ? slot : nil
        if nextReplaced != nil { due.setNow(.apps) }
    }

    /// Why a connection of the app is not let in; nil where it is, and is counted in.
    func refusal(of app: App) -> ErrorCode? {
        guard app.features.isEnabled else { return .appDisabled }
        return app.enterConnection()
    }
}
