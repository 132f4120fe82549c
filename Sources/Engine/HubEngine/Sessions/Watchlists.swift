import Bytes
import Pusher

/// Watchlists of apps that have them: tells users' shards who of this loop is signed in, and hands their news to watchers.
package final class Watchlists {
    private let sessions: SessionTable
    private var watched: [UserKey: WatchedUser] = [:]
    private var lastWatch: UInt32 = 0

    init(of sessions: SessionTable) {
        self.sessions = sessions
    }

    /// The session's user is known: the shard counts the session, once, if the app has watchlists.
    ///
    /// - Parameter data: what was said of the user. If it was said before, the later one counts.
    func welcome(_ session: Session, as data: UserData? = nil, _ effects: inout SessionEngine.Effects) {
        var requests: [UserRequest] = []
        if let data, data.info != nil || data.watchlist != nil || session.detail != nil {
            signed(data, session, &requests, &effects)
        }
        // Last, because the shard may be on this loop and answer at once: what it tells follows what the loop knew before.
        if session.app.features.watchlists, !session.isAnnounced, let identity = session.identity {
            session.isAnnounced = true
            requests.append(.arrived(UserKey(identity.user, of: session.app.index)))
        }
        if !requests.isEmpty { effects.append(.users(requests)) }
    }

    private func signed(
        _ data: UserData, _ session: Session, _ requests: inout [UserRequest], _ effects: inout SessionEngine.Effects
    ) {
        let detail = session.madeDetail()
        let info = data.info ?? []
        detail.info = info.count <= session.app.limits.presenceMemberBytesMax ? info : nil
        let ids = data.watchlist?.ids ?? []
        if isWatching(ids, session, detail) {
            // The same list again: shards need not be asked for what is known.
            var news = WatchlistNews()
            for entry in detail.watching {
                if let isOnline = entry.user.isOnline { news.append(entry.user.key.id, isOnline) }
            }
            if let messages = news.messages { effects.append(.send(messages)) }
        } else {
            unwatch(detail, &requests)
            watch(ids, session, detail, &requests, &effects)
        }
        if data.watchlist?.isCut == true {
            session.app.counts.refused(.watchlist)
            effects.append(.send(.error(.watchlistLimited)))
        }
        if data.watchlist?.hasOthers == true {
            effects.complain("watchlist names users by strings of 1 to 128 bytes; what else is in it is left out")
        }
    }

    private func isWatching(_ ids: [String], _ session: Session, _ detail: SessionDetail) -> Bool {
        guard ids.count == detail.watching.count else { return false }
        return zip(ids, detail.watching).allSatisfy { UserKey($0, of: session.app.index) == $1.user.key }
    }

    private func watch(
        _ ids: [String], _ session: Session, _ detail: SessionDetail, _ requests: inout [UserRequest],
        _ effects: inout SessionEngine.Effects
    ) {
        var news = WatchlistNews()
        detail.watching.reserveCapacity(ids.count)
        for id in ids {
            let key = UserKey(id, of: session.app.index)
            let watched = watched[key] ?? beginWatch(key, &requests)
            let index = UInt32(truncatingIfNeeded: watched.watchers.count)
            let own = UInt32(truncatingIfNeeded: detail.watching.count)
            watched.append(Watcher(session: session.id, index: own))
            detail.watching.append(Watching(user: watched, index: index))
            if let isOnline = watched.isOnline { news.append(id, isOnline) }
        }
        if let messages = news.messages { effects.append(.send(messages)) }
    }

    private func beginWatch(_ key: UserKey, _ requests: inout [UserRequest]) -> WatchedUser {
        lastWatch &+= 1
        let user = WatchedUser(key, serial: lastWatch)
        watched[key] = user
        requests.append(.watch(key, serial: lastWatch))
        return user
    }

    private func unwatch(_ detail: SessionDetail, _ requests: inout [UserRequest]) {
        let watching = detail.watching
        detail.watching = []
        for entry in watching {
            let watched = entry.user
            if let moved = watched.removeWatcher(at: Int(entry.index)), let other = sessions[moved.session]?.detail,
                Int(moved.index) < other.watching.count
            {
                other.watching[Int(moved.index)].index = entry.index
            }
            if watched.watchers.isEmpty {
                self.watched[watched.key] = nil
                requests.append(.unwatch(watched.key))
            }
        }
    }

    /// The session ends, or its app no longer has watchlists.
    func departed(_ session: Session, mayReturn: Bool = true, _ effects: inout SessionEngine.Effects) {
        var requests: [UserRequest] = []
        if let detail = session.detail { unwatch(detail, &requests) }
        if session.isAnnounced, let identity = session.identity {
            session.isAnnounced = false
            requests.append(.departed(UserKey(identity.user, of: session.app.index), mayReturn: mayReturn))
        }
        if !requests.isEmpty { effects.append(.users(requests)) }
    }

    /// Hands a shard's news to the sessions concerned, by `send`.
    package func told(_ news: [UserNews], _ send: ([SessionID], consuming Messages) -> Void) {
        var answers: [SessionID: WatchlistNews] = [:]
        for item in news {
            guard let watched = watched[item.user] else { continue }
            if let serial = item.serial {
                guard serial == watched.serial, watched.isOnline == nil else { continue }
                watched.isOnline = item.isOnline
                for watcher in watched.watchers {
                    answers[watcher.session, default: WatchlistNews()].append(item.user.id, item.isOnline)
                }
            } else if let known = watched.isOnline, known != item.isOnline {
                watched.isOnline = item.isOnline
                var change = WatchlistNews()
                change.append(item.user.id, item.isOnline)
                if let messages = change.messages { send(watched.watchers.map(\.session), messages) }
            }
        }
        for (id, answer) in answers {
            if let messages = answer.messages { send([id], messages) }
        }
    }
}

/// Which watched users are online, for one session.
private struct WatchlistNews {
    private var online: [String] = []
    private var offline: [String] = []

    mutating func append(_ id: String, _ isOnline: Bool) {
        if isOnline { online.append(id) } else { offline.append(id) }
    }

    var messages: Messages? {
        guard !online.isEmpty || !offline.isEmpty else { return nil }
        return .watchlist(online: online, offline: offline)
    }
}
