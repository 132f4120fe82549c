import Bytes
import Clock
import Metrics
import Pusher

/// Sessions in ordinary channels: who may be in which, and how the shards' answers let them in.
package final class OrdinarySubscriptions {
    /// What the engine wants done.
    package typealias Effects = SessionEngine.Effects

    private let channels: SubscribedChannels
    private let metrics: EngineMetrics
    /// Subscribes in flight whose clients have left the channel by request meanwhile. Bounded by the answers in flight.
    private var farewells: Set<Farewell> = []

    init(in channels: SubscribedChannels, _ metrics: EngineMetrics) {
        self.channels = channels
        self.metrics = metrics
    }

    /// `pusher:subscribe` to an ordinary channel.
    ///
    /// - Parameter isSigned: whether the text is the app's signature of the channel, and of `channel_data` if any.
    func subscribe(
        _ name: ChannelName, _ auth: String?, _ channelData: String?, isSigned: (String) -> Bool, _ session: Session,
        _ effects: inout Effects
    ) {
        switch name.kind {
        case .public, .cache:
            enter(name, as: nil, session, &effects)
        case .private, .privateEncrypted, .privateCache, .privateEncryptedCache:
            guard let auth, isSigned(auth) else { return effects.refuse(name, .badSignature, metrics) }
            enter(name, as: nil, session, &effects)
        case .presence, .presenceCache:
            guard let auth, isSigned(auth) else { return effects.refuse(name, .badSignature, metrics) }
            let member: PresenceMember
            do throws(SubscriptionRefusal) {
                member = try self.member(channelData, session)
            } catch {
                return effects.refuse(name, error, metrics)
            }
            enter(name, as: member, session, &effects)
        case .serverToUser:
            let user = name.string.utf8.dropFirst(name.kind.prefix.utf8CodeUnitCount)
            guard let identity = session.identity else { return effects.refuse(name, .notSignedIn, metrics) }
            guard user.elementsEqual(identity.userID.utf8) else { return effects.refuse(name, .otherUser, metrics) }
            enter(name, as: nil, session, &effects)
        }
    }

    /// Who the session is in a presence channel: by `channel_data`, otherwise the user that it is signed in as.
    private func member(_ channelData: String?, _ session: Session) throws(SubscriptionRefusal) -> PresenceMember {
        let member: PresenceMember
        if let channelData {
            let data: ChannelData
            do throws(ChannelDataError) {
                data = try ChannelData(channelData)
            } catch {
                throw .badChannelData
            }
            member = PresenceMember(id: data.userID, info: data.userInfo)
        } else if let identity = session.identity {
            let detail = session.detail
            guard let info = detail == nil ? [] : detail?.info else { throw .memberTooLarge }
            member = PresenceMember(id: identity.userID, info: info)
        } else {
            throw .noMember
        }
        guard member.info.count <= session.app.limits.presenceMemberBytesMax else {
            session.app.counts.refused(.presenceMemberBytes)
            throw .memberTooLarge
        }
        return member
    }

    private func enter(
        _ name: ChannelName, as member: PresenceMember?, _ session: Session, _ effects: inout Effects
    ) {
        let key = ChannelKey(session.app.index, name)
        let channel = channels[key] ?? channels.insert(key)
        channel.joining += 1
        session.subscribe(to: channel)
        if let member {
            session.madeDetail().enter(channel, as: member.id)
        }
        metrics.subscriptions(1, channel, of: session.app)
        effects.append(
            .request(
                .enter(
                    ChannelEntry(
                        app: session.app, key: key, session: session.id, socketID: session.socketID,
                        serial: session.lastSerial, member: member, subscriptionCount: session.channelCount - 1))))
    }

    /// A subscribe to a channel that the session is in is answered again: in a presence channel with its members, in a cache
    /// channel with its event, as the shard has them.
    func repeated(
        _ index: Int, of name: ChannelName, _ auth: String?, _ channelData: String?, _ isSigned: (String) -> Bool,
        _ session: Session, _ effects: inout Effects
    ) {
        let member = newest(name, auth, channelData, isSigned, session, index)
        if case .joining = session.subscriptions[index].standing { return }
        guard name.kind.isPresence || name.kind.isCache else {
            return effects.append(.send(.succeeded(name)))
        }
        // The answer to the first repeat in flight serves this one too.
        guard session.madeDetail().asksAgain(session.subscriptions[index].serial) else { return }
        effects.append(
            .request(
                .enter(
                    ChannelEntry(
                        app: session.app, key: ChannelKey(session.app.index, name), session: session.id,
                        socketID: session.socketID, serial: session.subscriptions[index].serial, member: member,
                        isRepeated: true))))
    }

    /// What a repeated subscribe says of the user in a presence channel. Nil if unsigned, unusable, or of another user.
    private func newest(
        _ name: ChannelName, _ auth: String?, _ channelData: String?, _ isSigned: (String) -> Bool, _ session: Session,
        _ index: Int
    ) -> PresenceMember? {
        guard name.kind.isPresence, let auth, channelData != nil, isSigned(auth),
            let member = try? member(channelData, session),
            let userID = session.detail?.userID(in: session.subscriptions[index].channel),
            userID.hasSameBytes(as: member.id)
        else { return nil }
        return member
    }

    /// A repeated subscribe was not handed on: the next one may be.
    package func leftUnanswered(_ entry: ChannelEntry, _ session: Session) {
        session.detail?.isAnsweredAgain(entry.serial)
        session.tidy()
    }

    // MARK: The shard's answers

    /// The channel's shard has let the session in.
    ///
    /// - Parameter hasRoom: whether little is queued to the connection. If not, a repeated answer is dropped: member lists
    ///   are long, and asking costs a client next to nothing.
    package func entered(
        _ entered: ChannelEntered, _ session: Session, hasRoom: Bool = true, _ effects: inout Effects
    ) {
        if entered.isRepeated {
            session.detail?.isAnsweredAgain(entered.serial)
            guard hasRoom, session.subscriptions.contains(where: { $0.serial == entered.serial }) else { return }
            return tell(entered, { .queue($0) }, &effects)
        }
        guard let index = session.subscriptions.firstIndex(where: { $0.serial == entered.serial }) else {
            endsFarewell(session.id, serial: entered.serial)
            if let exit = entered.exit(mayReturn: false) { effects.append(.request(.exit(exit))) }
            return
        }
        let channel = session.subscriptions[index].channel
        channel.joining -= 1
        session.subscriptions[index].standing = channel.append(session.id)
        tell(entered, { .share($0) }, &effects)
    }

    private func tell(
        _ entered: ChannelEntered, _ share: (SharedMessages) -> Effect, _ effects: inout Effects
    ) {
        effects.append(entered.members.map(share) ?? .send(.entered(entered.key.name, count: entered.count)))
        switch entered.cached {
        case .event(let event): effects.append(share(event))
        case .miss: effects.append(.send(.cacheMiss(entered.key.name)))
        case .noCache: break
        }
        for messages in entered.missed { effects.append(share(messages)) }
    }

    /// The channel's shard has refused the session.
    package func refused(
        _ session: Session, serial: UInt32, _ refusal: SubscriptionRefusal, _ effects: inout Effects
    ) {
        guard let index = session.subscriptions.firstIndex(where: { $0.serial == serial }),
            case .plain(let name) = session.subscriptions[index].channel.label
        else {
            endsFarewell(session.id, serial: serial)
            return
        }
        // It was in already, and has asked again: it stays.
        guard case .joining = session.subscriptions[index].standing else {
            session.detail?.isAnsweredAgain(serial)
            return
        }
        leave(name, session.subscriptions.remove(at: index), of: session, mayReturn: false, isAnswered: true, &effects)
        effects.refuse(name, refusal, metrics)
    }

    // MARK: Leaving

    /// Removes a subscription, already out of the session's list, from its channel, and tells the shard. One that
    /// awaits its answer is withdrawn; if it is let in all the same, the shard is told when the answer comes.
    ///
    /// - Parameters:
    ///   - mayReturn: see `SessionEngine.closed`.
    ///   - isAnswered: whether the shard has refused it.
    func leave(
        _ name: ChannelName, _ subscription: Subscription, of session: Session, mayReturn: Bool,
        isAnswered: Bool = false, _ effects: inout Effects
    ) {
        let channel = subscription.channel
        metrics.subscriptions(-1, channel, of: session.app)
        let key = ChannelKey(session.app.index, name)
        let userID = session.detail?.leave(channel)
        switch subscription.standing {
        case .joining:
            channel.joining -= 1
            guard !isAnswered else { break }
            let withdrawal = ChannelWithdrawal(key: key, session: session.id, serial: subscription.serial)
            effects.append(.request(.withdraw(withdrawal)))
        case .live(let index):
            channels.takeOut(index, of: channel)
            effects.append(.request(.exit(ChannelExit(key: key, userID: userID, mayReturn: mayReturn))))
        case .behind: break
        }
        if channel.isEmpty { channels.remove(key) }
    }

    /// A subscribe in flight whose client has left the channel by request.
    private struct Farewell: Hashable {
        let session: SessionID
        let serial: UInt32
    }

    /// The client leaves a channel by request. Remembered while the answer is in flight: the session may be gone by then.
    func saysFarewell(_ session: Session, to subscription: Subscription) {
        guard case .joining = subscription.standing else { return }
        farewells.insert(Farewell(session: session.id, serial: subscription.serial))
    }

    /// Such an answer has come. Returns whether the client had left by request.
    @discardableResult
    private func endsFarewell(_ session: SessionID, serial: UInt32) -> Bool {
        // Nearly always the set is empty.
        !farewells.isEmpty && farewells.remove(Farewell(session: session, serial: serial)) != nil
    }

    /// The shard has answered a session that is gone. Returns the leave to report; nil where the shard knows.
    package func answeredTooLate(_ answer: ChannelAnswer) -> ChannelExit? {
        switch answer {
        case .entered(let entered):
            // A repeated subscribe has the serial of the first.
            guard !entered.isRepeated else { return nil }
            return entered.exit(mayReturn: !endsFarewell(entered.session, serial: entered.serial))
        case .refused(let session, let serial, _):
            endsFarewell(session, serial: serial)
            return nil
        }
    }

    // MARK: Client events

    /// `client-…`: passed on to the others in a private or presence channel.
    func passOn(
        _ event: String, _ name: ChannelName, _ data: [UInt8], _ session: Session, _ now: Instant,
        _ effects: inout Effects
    ) {
        let app = session.app
        guard app.features.clientEvents else {
            return complain("This app does not allow client events", "disabled", &effects)
        }
        guard name.kind.allowsClientEvents else {
            return complain("Client events are for private and presence channels, not encrypted", "kind", &effects)
        }
        guard let index = session.index(of: name), case .live = session.subscriptions[index].standing else {
            return complain("Client events are for channels that the connection is subscribed to", "outside", &effects)
        }
        let perSecond = app.limits.clientEventsPerSecond
        if perSecond > 0 {
            let detail = session.madeDetail()
            guard detail.clientEvents.take(Rate(perSecond: perSecond, burst: perSecond), at: now) else {
                metrics.refusedClientEvents["rate"].add()
                app.counts.refused(.clientEventsPerSecond)
                return effects.append(.send(.error(.rateLimited)))
            }
        }
        data.withUnsafeBytes { text in
            guard ClientEventData.count(text) <= app.limits.eventBytesMax else {
                app.counts.refused(.eventBytes)
                return complain("The data of a client event is longer than this app allows", "size", &effects)
            }
            let userID = session.detail?.userID(in: session.subscriptions[index].channel)
            metrics.clientEvents.add()
            app.counts.clientEvents.add()
            var webhook: WebhookEvent?
            if app.features.webhooks.contains(.clientEvents) {
                webhook = .clientEvent(
                    name, name: event, data: ClientEventData.characters(text), socketID: session.socketID,
                    userID: userID)
            }
            effects.append(
                .request(
                    .relay(
                        ChannelRelay(
                            app: app, key: ChannelKey(app.index, name), sender: session.id,
                            event: RelayedEvent(event: event, data: data, userID: userID, sender: session.socketID),
                            webhook: webhook))))
        }
    }

    private func complain(_ message: StaticString, _ reason: String, _ effects: inout Effects) {
        metrics.refusedClientEvents[reason].add()
        effects.complain(message)
    }
}
