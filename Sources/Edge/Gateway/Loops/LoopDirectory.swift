import HubEngine
import Pusher
import Reactor
import Sync

/// What routes ask of the hub's channels. Owners answer for their channels, and every loop for its own streams' subscribers.
struct LoopDirectory: ChannelDirectory {
    let own: ClientLoop

    private var router: Router { own.router }

    func app(id: String) -> App? { own.apps.table.app(id: id) }

    func app(key: String) -> App? { own.apps.table.app(key: key) }

    func isOverloaded(by app: App) -> Bool { own.isOverloaded(by: app.index) }

    // MARK: Publish

    /// Worst interleaving: an answered publish waits in its owner's mailbox, and the backend sends the next one to the
    /// owner's loop itself. The next one then goes behind it (`EventLoop`, `Router.have`).
    func publish(
        _ publications: [Publication], of app: App, tellsFacts: Bool,
        _ answer: @escaping @Sendable ([ChannelFacts]) -> Void
    ) -> [ChannelFacts]? {
        if !tellsFacts, !own.isBusyPublishing {
            for publication in publications {
                let owner = router.owner(of: ChannelKey(app.index, publication.channel))
                router.have(owner, for: app.index, on: own) { _ = $0.channels.publish(publication, of: app) }
            }
            return publications.map { _ in ChannelFacts() }
        }
        // One event to one channel without subscribers on other loops.
        if publications.count == 1,
            router.isFirst(at: router.owner(of: ChannelKey(app.index, publications[0].channel))),
            router.isAlone(in: loops(in: publications[0], app))
        {
            return [own.channels.publish(publications[0], of: app)]
        }
        let owners = publications.map { router.owner(of: ChannelKey(app.index, $0.channel)) }
        let targets = Set(owners).sorted()
        // An owner's answers are in the order of its publications.
        let inOrder = { @Sendable (parts: [[ChannelFacts]]) in
            var next = Dictionary(uniqueKeysWithValues: zip(targets, parts.map { $0[...] }))
            return owners.map { next[$0]?.popFirst() ?? ChannelFacts() }
        }
        let gather = ScatterGather(targets.count) { answer(inOrder($0)) }
        let asker = router.here
        for (index, target) in targets.enumerated() {
            router.have(target, for: app.index, on: own) { loop in
                let part = zip(publications, owners).lazy.filter { $0.1 == target }.map(\.0)
                gather.take(LoopDirectory(own: loop).publish(part, of: app, for: asker, gather), at: index)
            }
        }
        return nil
    }

    private func loops(in publication: Publication, _ app: App) -> LoopSet {
        own.channels.loops(in: ChannelKey(app.index, publication.channel))
    }

    /// Publishes to channels that this loop owns. The other loops with subscribers report when they have taken all of it:
    /// the question follows the publishes in their mailboxes. The asking loop is not asked: the answer itself follows there.
    private func publish(
        _ publications: some Sequence<Publication>, of app: App, for asker: Int, _ gather: ScatterGather<[ChannelFacts]>
    ) -> [ChannelFacts] {
        var subscribed: LoopSet = []
        var facts: [ChannelFacts] = []
        for publication in publications {
            subscribed.formUnion(loops(in: publication, app))
            facts.append(own.channels.publish(publication, of: app))
        }
        for target in router.others(of: subscribed.subtracting(LoopSet(loop: asker))) {
            gather.wait()
            router.ask(target, for: app.index) { _ in gather.waited() }
        }
        return facts
    }

    // MARK: Questions

    func channels(
        of app: App, prefix: String, max: Int, _ answer: @escaping @Sendable ([String: ChannelFacts]) -> Void
    ) -> [String: ChannelFacts]? {
        let merge = { @Sendable (parts: [[String: ChannelFacts]]) in
            // Each loop with sessions in a stream names it; an ordinary channel is named only by its owner.
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
        let parts = router.gather(
            from: router.all, for: app.index, on: own,
            { loop in
                let ordinary = loop.channels.channels(of: app, prefix: prefix, max: max)
                let streams = loop.engine.channels.streams(of: app, prefix: prefix, max: max)
                return ordinary.merging(streams) { own, _ in own }
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
            return router.gather(
                from: router.all, for: app.index, on: own, { $0.engine.channels[stream]?.memberCount ?? 0 },
                { answer(sum($0)) }
            ).map(sum)
        }
        let key = ChannelKey(app.index, channel)
        return router.gather(
            from: [router.owner(of: key)], for: app.index, on: own, { $0.channels.facts(of: key) }, { answer($0[0]) }
        )?[0]
    }

    func users(
        in channel: ChannelName, of app: App, _ answer: @escaping @Sendable ([String]) -> Void
    ) -> [String]? {
        let key = ChannelKey(app.index, channel)
        return router.gather(
            from: [router.owner(of: key)], for: app.index, on: own, { $0.channels.users(in: key) },
            { answer($0[0]) })?[0]
    }

    func terminate(_ userID: String, of app: App, _ answer: @escaping @Sendable () -> Void) -> Void? {
        let user = UserKey(userID, of: app.index)
        return router.gather(
            from: router.all, for: app.index, on: own, { $0.terminate(user) }, { _ in answer() }
        ).map { _ in }
    }
}
