import Bytes
import Pusher
import Sync
import TestSupport
import Testing

@testable import HubEngine

/// The memory of each idle connection: session, streams and user are most of it. The bounds are the sizes above which the
/// allocator's block grows by 16 bytes.
@Suite struct IdleSizeTests {
    @Test func sessionsAndChannelsStaySmall() {
        #expect(instanceBytes(of: Session.self) <= 120)
        #expect(instanceBytes(of: LocalChannel.self) <= 56)
    }

    @Test func entriesOfTablesStaySmall() {
        #expect(MemoryLayout<StreamState>.stride <= 40)
        #expect(MemoryLayout<StreamChannel>.stride <= 8)
        #expect(MemoryLayout<Subscription?>.stride <= 16)
        #expect(MemoryLayout<UserKey>.stride <= 16)
        #expect(MemoryLayout<UserShard.User>.stride <= 40)
        #expect(MemoryLayout<Identity?>.stride <= 16)
    }

    /// Stock clients subscribe before they sign in: the waiting subscribes are freed afterwards.
    @Test func whatWaitedForTheIdentityIsLetGo() throws {
        let engine = EngineFixture()
        let session = engine.session(1)
        _ = try engine.subscribe("user.u1.reminders", from: session)
        #expect(session.detail != nil)
        _ = try engine.signin("u1", from: session)
        #expect(session.detail == nil)
        #expect(session.subscriptions.count == 1)
    }

    /// The id of a user is kept once for a session and its streams, whichever comes first, the sign-in or the subscribe.
    @Test(arguments: [false, true]) func aSessionsStreamsShareItsUsersID(_ isEarly: Bool) throws {
        let engine = EngineFixture()
        let session = engine.session(1)
        if isEarly { _ = try engine.subscribe("user.u1.reminders", from: session) }
        _ = try engine.signin("u1", from: session)
        if !isEarly { _ = try engine.subscribe("user.u1.reminders", from: session) }
        let stream = try #require(session.subscriptions.first?.channel.stream?.stream)
        let user = try #require(session.identity).user
        #expect(stream.withUser { $0.baseAddress } == user.baseAddress)
    }

    @Test(arguments: 1...50 as ClosedRange<UInt64>)
    func aSubscriptionListIsAnArray(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var list = SubscriptionList()
        var model: [UInt32] = []
        for step in 1...60 as ClosedRange<UInt32> {
            switch Int.random(in: 0..<5, using: &random) {
            case 0...2:
                let channel = LocalChannel(.stream(StreamName(form: .user, stream: StreamID(user: "u", topic: "t"))))
                list.append(Subscription(joining: channel, serial: step))
                model.append(step)
            case 3:
                guard let index = model.indices.randomElement(using: &random) else { continue }
                #expect(list.remove(at: index).serial == model.remove(at: index))
            default:
                #expect(list.popLast()?.serial == model.popLast())
            }
            if let index = model.indices.randomElement(using: &random) {
                list[index].serial = step + 100
                model[index] = step + 100
            }
            #expect(list.map(\.serial) == model, "seed \(seed)")
            for serial in model + [0] {
                #expect(list.indexOfFirst { $0.serial == serial } == model.firstIndex(of: serial), "seed \(seed)")
            }
        }
    }

    @Test func aSubscriptionKeepsItsChannelAndSerial() {
        let channel = LocalChannel(.stream(StreamName(form: .user, stream: StreamID(user: "u", topic: "t"))))
        var subscription = Subscription(joining: channel, serial: 7)
        for step in 0..<3 as Range<UInt32> {
            switch step {
            case 0: subscription.standing = .live(3)
            case 1:
                let replay = Replay(channel, cursor: StreamPosition(epoch: "e", offset: 1), isResume: true)
                subscription.standing = .behind(replay)
            default: subscription.standing = .joining
            }
            #expect(subscription.channel === channel)
            #expect(subscription.serial == 7 + step)
            subscription.serial += 1
        }
    }
}
