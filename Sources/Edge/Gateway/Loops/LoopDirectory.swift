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
        _ answer: @escaping @Sendable (Known<[ChannelFacts]>) -> Void
    ) -> Known<[ChannelFacts]>? {
        if !tellsFacts, !own.isBusyPublishing, own.channels.repliesAtOnce {
            for publication in publications {
                let owner = router.owner(of: ChannelKey(app.index, publication.channel))
                router.have(owner, for: app.index, on: own) { _ = $0.channels.publish(publication, of: app) }
            }
            return .success(publications.map { _ in ChannelFacts() })
        }
        // One event to one channel without subscribers on other loops.
        if publications.count == 1,
            router.isFirst(at: router.owner(of: ChannelKey(app.index, publications[0].channel))),
            router.isAlone(in: loops(in: publications[0], app))
        {
            return own.channels.publish(publications[0], of: app) { answer($0.facts.map { [$0] }) }?
                .facts.map { [$0] }
        }
        let owners = publications.map { router.owner(of: ChannelKey(app.index, $0.channel)) }
        let targets = Set(owners).sorted()
        // An owner's answers are in the order of its publications.
        let inOrder = { @Sendable (parts: [[Known<ChannelFacts>]]) -> Known<[ChannelFacts]> in
            var next = Dictionary(uniqueKeysWithValues: zip(targets, parts.map { $0[...] }))
            return StateUnavailable.all(owners.map { next[$0]?.popFirst() ?? .success(ChannelFacts()) })
        }
        let gather = ScatterGather(targets.count) { answer(inOrder($0)) }
        let asker = router.here
        for (index, target) in targets.enumerated() {
            router.have(target, for: app.index, on: own) { loop in
                let part = zip(publications, owners).filter { $0.1 == target }.map(\.0)
                LoopDirectory(own: loop).publish(part, of: app, for: asker, gather, at: index)
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
        _ publications: [Publication], of app: App, for asker: Int, _ gather: ScatterGather<[Known<ChannelFacts>]>,
        at index: Int
    ) {
        var subscribed: LoopSet = []
        let part = ScatterGather<Known<ChannelFacts>>(publications.count) { gather.take($0, at: index) }
        // Until the loops below are asked.
        part.wait()
        for (number, publication) in publications.enumerated() {
            subscribed.formUnion(loops(in: publication, app))
            let reply = own.channels.publish(publication, of: app) { part.take($0.facts, at: number) }
            if let reply { part.take(reply.facts, at: number) }
        }
        for target in router.others(of: subscribed.subtracting(LoopSet(loop: asker))) {
            gather.wait()
            router.ask(target, for: app.index) { _ in gather.waited() }
        }
        part.waited()
    }

    // MARK: Questions

    func channels(
        of app: App, prefix: String, max: Int, _ answer: @escaping @Sendable (Known<[String: ChannelFacts]>) -> Void
    ) -> Known<[String: ChannelFacts]>? {
        let merge = { @Sendable (parts: [Known<[String: ChannelFacts]>]) in
            Known { () throws(StateUnavailable) in
                // Each loop with sessions in a stream names it; an ordinary channel is named only by its owner.
                var all: [String: ChannelFacts] = [:]
                for part in parts where all.count <= max {
                    all.merge(try part.get()) { left, right in
                        var sum = left
                        sum.subscriptionCount += right.subscriptionCount
                        return sum
                    }
                }
                return all
            }
        }
        let call = ChannelCall.list(app: app.index, prefix: prefix, most: max)
        let asker = router.here
        let parts = router.gather(
            from: router.all, for: app.index, on: own,
            { loop, take in
                let streams = loop.engine.channels.streams(of: app, prefix: prefix, max: max)
                // What is elsewhere knows the channels of all loops.
                guard loop.channels.repliesAtOnce || loop.router.here == asker else { return take(.success(streams)) }
                loop.channels.ask(call) { take($0.list.map { $0.merging(streams) { own, _ in own } }) }
            }, { answer(merge($0)) })
        return parts.map(merge)
    }

    func facts(
        of channel: ChannelName, of app: App, _ answer: @escaping @Sendable (Known<ChannelFacts>) -> Void
    ) -> Known<ChannelFacts>? {
        if app.ownsDatabase, let stream = try? StreamName.parse(channel.string) {
            let sum = { @Sendable (parts: [Int]) in
                var facts = ChannelFacts()
                facts.subscriptionCount = parts.reduce(0, +)
                return Known.success(facts)
            }
            return router.gather(
                from: router.all, for: app.index, on: own, { $1($0.engine.channels[stream]?.memberCount ?? 0) },
                { answer(sum($0)) }
            ).map(sum)
        }
        return ask(.facts(ChannelKey(app.index, channel)), \.facts, answer)
    }

    func users(
        in channel: ChannelName, of app: App, _ answer: @escaping @Sendable (Known<[String]>) -> Void
    ) -> Known<[String]>? {
        ask(.users(ChannelKey(app.index, channel)), \.users, answer)
    }

    /// Asks the owner of the channel that the call is about.
    private func ask<Value: Sendable>(
        _ call: ChannelCall, _ value: @escaping @Sendable (ChannelReply) -> Known<Value>,
        _ answer: @escaping @Sendable (Known<Value>) -> Void
    ) -> Known<Value>? {
        guard let key = call.key else { return .failure(StateUnavailable(.notDone)) }
        return router.gather(
            from: [router.owner(of: key)], for: key.app, on: own, { $0.channels.ask(call, $1) },
            { answer(value($0[0])) }
        ).map { value($0[0]) }
    }

    func terminate(_ userID: String, of app: App, _ answer: @escaping @Sendable () -> Void) -> Void? {
        let user = UserKey(userID, of: app.index)
        // Other hubs do it too, a moment later.
        own.users.tell(.terminate(app: app.index, user: userID))
        return router.gather(
            from: router.all, for: app.index, on: own, { $1($0.terminate(user)) }, { (_: [Void]) in answer() }
        ).map { _ in }
    }
}

extension StateUnavailable {
    /// What is known of all; of some of them only, nobody knows what was done.
    fileprivate static func all<Value>(
        _ parts: [Result<Value, StateUnavailable>]
    ) -> Result<[Value], StateUnavailable> {
        var values: [Value] = []
        var faults: Set<StateFault> = []
        for part in parts {
            switch part {
            case .success(let value): values.append(value)
            case .failure(let state): faults.insert(state.fault)
            }
        }
        if faults.isEmpty { return .success(values) }
        if !values.isEmpty || faults.contains(.unknown) { return .failure(StateUnavailable(.unknown)) }
        return .failure(StateUnavailable(faults.contains(.settling) ? .settling : .notDone))
    }
}

extension ChannelReply {
    private var unavailable: StateUnavailable {
        if case .unavailable(let fault) = self { StateUnavailable(fault) } else { StateUnavailable(.unknown) }
    }

    fileprivate var facts: Result<ChannelFacts, StateUnavailable> {
        if case .facts(let facts) = self { .success(facts) } else { .failure(unavailable) }
    }

    fileprivate var users: Result<[String], StateUnavailable> {
        if case .users(let users) = self { .success(users) } else { .failure(unavailable) }
    }

    fileprivate var list: Result<[String: ChannelFacts], StateUnavailable> {
        if case .list(let channels) = self { .success(channels) } else { .failure(unavailable) }
    }
}
