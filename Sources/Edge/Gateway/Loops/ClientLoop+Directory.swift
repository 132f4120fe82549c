import Channels
import Pusher
import Reactor
import Sync

/// What routes ask of the hub's channels: each home answers for its own, and of users' streams every loop for its
/// subscribers.
extension ClientLoop: ChannelDirectory {
    func app(id: String) -> App? { apps.app(id: id) }

    func app(key: String) -> App? { apps.app(key: key) }

    func publish(
        _ publications: [Publication], of app: App, _ answer: @escaping @Sendable ([ChannelFacts]) -> Void
    ) -> [ChannelFacts]? {
        // One event to one channel, of whose subscribers no other loop has any.
        if publications.count == 1, let publication = publications.first {
            let key = ChannelKey(app.index, publication.channel)
            if hubContext.home(of: key) == number, channelHome.loops(in: key).isSubset(of: LoopSet(loop: number)) {
                return [publish(publication, of: app)]
            }
        }
        let places = publications.map { hubContext.home(of: ChannelKey(app.index, $0.channel)) }
        let homes = Set(places).sorted()
        // A home's answers are in the order of its publications.
        let inOrder = { @Sendable (parts: [[ChannelFacts]]) in
            var next = Dictionary(uniqueKeysWithValues: zip(homes, parts.map { $0[...] }))
            return places.map { next[$0]?.popFirst() ?? ChannelFacts() }
        }
        let gather = Gather(homes.count) { answer(inOrder($0)) }
        for (place, home) in homes.enumerated() {
            let part = { @Sendable (loop: ClientLoop) in
                let own = zip(publications, places).lazy.filter { $0.1 == home }.map(\.0)
                gather.take(loop.publish(own, of: app, gather), at: place)
            }
            if home == number { part(self) } else { ask(home, for: app, part) }
        }
        return nil
    }

    func isOverloaded(by app: App) -> Bool {
        metrics.publishes.isFull(for: app.index, max: publishesUnderWayMax)
    }

    /// What all loops together may have before them of apps' backends and clients.
    var publishesUnderWayMax: Int { limits.publishesUnderWayMax * hubContext.mailboxes.count }

    /// Has another loop do something for the app's backend, which is in the app's backlog until it does.
    private func ask(_ target: Int, for app: App, _ question: @escaping @Sendable (ClientLoop) -> Void) {
        metrics.publishes.add(of: app.index)
        hubContext.mailboxes[target].post(
            .ask { loop in
                loop.metrics.publishes.subtract(of: app.index)
                question(loop)
            })
    }

    /// Publishes to channels whose home is this loop, and has the other loops that have subscribers say when they have
    /// taken all of it: what is asked stands behind what was published in their mailboxes.
    private func publish(
        _ publications: some Sequence<Publication>, of app: App, _ gather: Gather<[ChannelFacts]>
    ) -> [ChannelFacts] {
        var takers: LoopSet = []
        var facts: [ChannelFacts] = []
        for publication in publications {
            takers.formUnion(channelHome.loops(in: ChannelKey(app.index, publication.channel)))
            facts.append(publish(publication, of: app))
        }
        for target in hubContext.mailboxes.indices where target != number && takers.contains(loop: target) {
            gather.wait()
            ask(target, for: app) { _ in gather.waited() }
        }
        return facts
    }

    /// Publishes to a channel whose home is this loop.
    private func publish(_ publication: Publication, of app: App) -> ChannelFacts {
        atChannelHome { home, now, effects in home.publish(publication, of: app, now: now, &effects) }
    }

    func channels(
        of app: App, prefix: String, max: Int, _ answer: @escaping @Sendable ([String: ChannelFacts]) -> Void
    ) -> [String: ChannelFacts]? {
        let merge = { @Sendable (parts: [[String: ChannelFacts]]) in
            // A stream's name is told by each loop that has somebody in it, an ordinary channel's by its home alone.
            var all: [String: ChannelFacts] = [:]
            for part in parts where all.count <= max {
                all.merge(part) { left, right in
                    var sum = left
                    sum.subscriptionCount += right.subscriptionCount
                    return sum
                }
            }
            return all
        }
        let found = FoundChannels(max: max)
        let parts = gather(
            from: Array(hubContext.mailboxes.indices), for: app,
            { loop in
                guard !found.areTooMany else { return [:] }
                let ordinary = loop.channelHome.channels(
                    of: app, prefix: prefix, now: loop.loop.now.nanoseconds, until: { found.isOneTooMany() })
                guard !found.areTooMany else { return ordinary }
                return ordinary.merging(loop.hub.streams(of: app, prefix: prefix, max: max)) { own, _ in own }
            }, { answer(merge($0)) })
        return parts.map(merge)
    }

    func facts(
        of channel: ChannelName, of app: App, _ answer: @escaping @Sendable (ChannelFacts) -> Void
    ) -> ChannelFacts? {
        if app.ownsDatabase, let stream = try? StreamName.parse(channel.string) {
            let sum = { @Sendable (parts: [Int]) in
                var facts = ChannelFacts()
                facts.subscriptionCount = parts.reduce(0, +)
                return facts
            }
            return gather(
                from: Array(hubContext.mailboxes.indices), for: app, { $0.hub.channel(stream)?.memberCount ?? 0 },
                { answer(sum($0)) }
            ).map(sum)
        }
        let key = ChannelKey(app.index, channel)
        return gather(
            from: [hubContext.home(of: key)], for: app,
            { loop in loop.channelHome.facts(of: key, now: loop.loop.now.nanoseconds) }, { answer($0[0]) }
        )?[0]
    }

    func users(
        in channel: ChannelName, of app: App, _ answer: @escaping @Sendable ([String]) -> Void
    ) -> [String]? {
        let key = ChannelKey(app.index, channel)
        return gather(
            from: [hubContext.home(of: key)], for: app, { $0.channelHome.users(in: key) }, { answer($0[0]) })?[0]
    }

    func terminate(_ userID: String, of app: App, _ answer: @escaping @Sendable () -> Void) -> Void? {
        let user = UserKey(userID, of: app.index)
        return gather(
            from: Array(hubContext.mailboxes.indices), for: app, { $0.terminate(user) }, { _ in answer() }
        ).map { _ in }
    }

    /// Has each of these loops, in order and none twice, give its part. Returned where there is only this one; else `answer`
    /// gets them.
    private func gather<Part: Sendable>(
        from loops: [Int], for app: App, _ part: @escaping @Sendable (ClientLoop) -> Part,
        _ answer: @escaping @Sendable ([Part]) -> Void
    ) -> [Part]? {
        if loops.isEmpty || loops == [number] { return loops.map { _ in part(self) } }
        let gather = Gather(loops.count, answer)
        for (place, target) in loops.enumerated() where target != number {
            ask(target, for: app) { gather.take(part($0), at: place) }
        }
        if let place = loops.firstIndex(of: number) { gather.take(part(self), at: place) }
        return nil
    }
}
