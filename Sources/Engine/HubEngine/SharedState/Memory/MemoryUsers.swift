import Bytes
import Clock

/// The shared state of users in the memory of one process, the model for all others: a `UserShard` whose loops are the hubs.
/// For at most `LoopSet.loopsMax` hubs, those that were reaped among them.
package final class MemoryUsers {
    /// What it tells, and whom.
    package typealias News = [(hub: HubID, news: SharedUserNews)]

    /// What a hub has said, and by which caller.
    private struct Hub {
        let id: HubID
        var present: [UserKey: Int] = [:]
        var watched: [UserKey: Int] = [:]
        var isReaped = false
    }

    private var shard: UserShard
    private var hubs: [Hub] = []
    private var lastVersion: UInt64 = 0
    private let apps: KnownApps

    /// No users. `apps`: by which parts are the same everywhere.
    package init(_ apps: KnownApps, limits: ShardLimits = ShardLimits()) {
        self.apps = apps
        shard = UserShard(limits: limits)
    }

    /// Users who are online, watched, or left a moment ago.
    package var userCount: Int { shard.userCount }
    /// When `UserCall.due` has work; nil if nothing waits.
    package var nextDue: Instant? { shard.nextDue }

    /// Carries out the call. What hubs are to be told of it is appended to `news`.
    ///
    /// - Parameter caller: the loop of the hub that owns the users that the call is about.
    package func call(_ call: UserCall, from hub: HubID, caller: Int = 0, now: Instant, _ news: inout News) {
        guard let place = place(of: hub), !hubs[place].isReaped else { return }
        var effects = ContiguousArray<UserShard.Effect>()
        if case .due = call {
            shard.tick(now: now, &effects)
        } else {
            let (from, requests) = requests(call, place, caller)
            shard.received(requests, from: from, now: now, &effects)
        }
        for effect in effects {
            switch effect {
            case .answer(let place, let answers): for answer in answers { tell(answer, place, &news) }
            case .tell(let places, let change):
                for place in hubs.indices where places.contains(loop: place) { tell(change, place, &news) }
            }
        }
    }

    private func tell(_ told: UserNews, _ place: Int, _ news: inout News) {
        lastVersion += 1
        news.append((hubs[place].id, SharedUserNews(news: told, version: lastVersion)))
    }

    private func place(of hub: HubID) -> Int? {
        if let place = hubs.firstIndex(where: { $0.id == hub }) { return place }
        guard hubs.count < LoopSet.loopsMax else { return nil }
        hubs.append(Hub(id: hub))
        return hubs.count - 1
    }

    /// What the call changes, as a shard takes it, and of which hub.
    private func requests(_ call: UserCall, _ place: Int, _ caller: Int) -> (from: Int, requests: [UserRequest]) {
        switch call {
        case .arrived(let user):
            return (place, hubs[place].present.updateValue(caller, forKey: user) == nil ? [.arrived(user)] : [])
        case .departed(let user, let mayReturn):
            let wasPresent = hubs[place].present.removeValue(forKey: user) != nil
            return (place, wasPresent ? [.departed(user, mayReturn: mayReturn)] : [])
        case .watch(let user, let serial):
            hubs[place].watched[user] = caller
            return (place, [.watch(user, serial: serial)])
        case .unwatch(let user):
            return (place, hubs[place].watched.removeValue(forKey: user) == nil ? [] : [.unwatch(user)])
        case .only(let part, let users):
            let requests = only(users, of: place, caller) { [apps] user, owner in
                owner == caller && UserPart(of: user, count: part.count, apps) == part
            }
            return (place, requests)
        case .reap(let dead):
            guard let place = self.place(of: dead) else { return (0, []) }
            defer { hubs[place].isReaped = true }
            return (place, only([], of: place, caller) { _, _ in true })
        case .due: return (place, [])
        }
    }

    private func only(
        _ users: [UserKey], of place: Int, _ caller: Int, _ isMeant: (UserKey, Int) -> Bool
    ) -> [UserRequest] {
        let (before, watched) = (hubs[place].present.filter(isMeant), hubs[place].watched.filter(isMeant))
        let present = Set(users)
        let (departed, arrived) = (
            before.keys.filter { !present.contains($0) }, present.filter { hubs[place].present[$0] == nil }
        )
        for user in departed { hubs[place].present[user] = nil }
        for user in present { hubs[place].present[user] = caller }
        for user in watched.keys { hubs[place].watched[user] = nil }
        return departed.map { .departed($0) } + arrived.map { .arrived($0) } + watched.keys.map { .unwatch($0) }
    }
}
