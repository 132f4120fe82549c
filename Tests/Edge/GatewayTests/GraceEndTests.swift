import HubEngine
import Pusher
import Reactor
import TestHub
import TestSupport
import Testing
import WebSocket

@testable import Gateway

/// Connections whose peers are gone: marked at once, closed in turns, and meanwhile in nobody's way.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct GraceEndTests {
    private static let channels = ["news", "presence-room"]

    private func members(_ change: (inout AppLimits) -> Void) -> AppLimits {
        var limits = AppLimits()
        change(&limits)
        return limits
    }

    /// No departed connection gets a turn before `end`.
    private func hub(
        loops: Int = 1, features: AppFeatures = AppFeatures(), limits: AppLimits = AppLimits(),
        change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws -> DrivenHub {
        try await DrivenHub(loops: loops, features: features, limits: limits) {
            $0.limits.departuresPerTurnMax = 0
            change(&$0)
        }
    }

    /// Gives all departed connections their turns.
    private func end(_ hub: DrivenHub) throws {
        for clients in hub.clients { clients.settings.limits.departuresPerTurnMax = 3 }
        try hub.turn { !hub.admission.hasDepartures }
        // Their last messages reach the channels' shards.
        hub.turn()
        hub.turn()
    }

    @Test(arguments: channels, [true, false])
    func newcomersAreServedBeforeTheDeadAreClosed(_ channel: String, byReset: Bool) async throws {
        for loops in 1...2 {
            let hub = try await hub(loops: loops)
            let dead = try (0..<80).map { try hub.subscribed(to: channel, as: channel == "news" ? nil : "d\($0)") }
            for peer in dead { peer.go(byReset: byReset) }
            try hub.turnUntilMarked(left: 0)
            let newcomer = try hub.subscribed(to: channel, as: channel == "news" ? nil : "new")
            #expect(hub.admission.hasDepartures, "it was not behind them")
            #expect(hub.facts(channel).subscriptionCount > 1)
            try end(hub)
            #expect(hub.facts(channel).subscriptionCount == 1)
            #expect(hub.admission.total == 1)
            #expect(hub.metrics.connections.level == 1)
            #expect(hub.app.counts.connections.count == 1)
            #expect(newcomer.closeCode == nil)
        }
    }

    /// If more events are ready than a turn handles, a newcomer is served before the loop has handled them all.
    @Test func newcomersAreServedBeforeTheDeadAreMarked() async throws {
        let hub = try await DrivenHub(eventsPerWait: 1)
        let dead = try (0..<40).map { _ in try hub.subscribed(to: "news") }
        dead[0].send(#"{"event":"pusher:ping","data":{}}"#)
        try hub.turn { hub.loops[0].isCrowded }
        hub.clients[0].intake.newcomers = []
        for peer in dead { peer.go() }
        let newcomer = try hub.newPeer()
        var isAsked = false
        // Without a full turn, in which the loop would handle the dead.
        try hub.wait {
            hub.clients[0].intake.overtake()
            for connection in hub.connections { connection.tickEnded() }
            if !isAsked, try newcomer.socketID() != nil {
                try hub.ask(newcomer, for: "news")
                isAsked = true
            }
            return try newcomer.texts().contains { $0.contains("subscription_succeeded") }
        }
        #expect(hub.connections.count { $0.phase == .open } == dead.count + 1)
        try hub.turnUntilMarked(left: 1)
        try end(hub)
        #expect(hub.facts("news").subscriptionCount == 1)
    }

    private static func tls() throws -> TLSServer {
        let folder = try CertificateFolder()
        defer { withExtendedLifetime(folder) {} }
        let pair = try folder.make("one", hosts: ["localhost"])
        return try TLSServer(.init(certificates: [.init(certificate: pair.certificate, key: pair.key)]))
    }

    /// A newcomer handled before its ClientHello has arrived takes no handshake slot and waits in no queue; one whose hello
    /// has arrived begins.
    @Test func aSilentNewcomerBeginsNoHandshake() async throws {
        let tls = try Self.tls()
        let hub = try await DrivenHub(eventsPerWait: 1) {
            $0.tls = tls
            $0.admission.tlsHandshakesMax = 1
            $0.admission.tlsHandshakesWaitingMax = 1
        }
        let settled = try hub.open()
        settled.send(#"{"event":"pusher:ping","data":{}}"#)
        try hub.turn { hub.loops[0].isCrowded }
        hub.clients[0].intake.newcomers = []
        let silent = try (0..<3).map { _ in try hub.newPeer(isSilent: true) }
        try hub.wait {
            hub.clients[0].intake.overtake()
            return hub.clients[0].intake.newcomers.count == silent.count
        }
        hub.clients[0].intake.overtake()
        #expect(hub.metrics.tls.underWay.level == 0)
        #expect(hub.metrics.tls.delayed.count == 0)
        #expect(hub.metrics.tls.failures["shed"].count == 0)
        silent[2].begin()
        try hub.wait {
            hub.clients[0].intake.overtake()
            return hub.metrics.tls.underWay.level == 1
        }
        for peer in silent[..<2] { peer.go(byReset: false) }
        try hub.turn { try silent[2].socketID() != nil }
        try hub.turn { hub.admission.total == 2 }
        #expect(hub.metrics.tls.failures["closed"].count == 0, "they never tried")
    }

    @Test(arguments: [(128, 0), (129, 1)]) func soManyNewcomersOvertake(_ count: Int, first: Int) async throws {
        let hub = try await DrivenHub(eventsPerWait: 1)
        let peers = try (0..<count).map { _ in try hub.open() }
        let connections = hub.connections
        peers[0].send(#"{"event":"pusher:ping","data":{}}"#)
        try hub.turn { hub.loops[0].isCrowded }
        for connection in connections { hub.clients[0].intake.came(connection.sessionID) }
        #expect(Array(hub.clients[0].intake.newcomers) == connections[first...].map(\.sessionID), "the latest")
        try hub.turn { !hub.loops[0].isCrowded }
        hub.clients[0].intake.came(connections[0].sessionID)
        #expect(hub.clients[0].intake.newcomers.isEmpty)
    }

    @Test(arguments: [(4, 0), (5, 1)])
    func aTurnClosesSoMany(_ dead: Int, left: Int) async throws {
        let hub = try await hub()
        let peers = try (0..<dead).map { _ in try hub.subscribed(to: "news") }
        for connection in hub.connections { connection.depart() }
        hub.turn()
        #expect(hub.admission.total == dead, "none is closed at once")
        hub.clients[0].settings.limits.departuresPerTurnMax = 4
        hub.turn()
        #expect(hub.admission.total == left)
        try end(hub)
        #expect(hub.facts("news").subscriptionCount == 0)
        #expect(peers.allSatisfy { $0.closeCode == nil })
    }

    @Test func messagesForAMarkedConnectionAreDropped() async throws {
        let hub = try await hub()
        let (dead, alive) = (try hub.subscribed(to: "news"), try hub.subscribed(to: "news"))
        let marked = try #require(hub.connections.first { $0.session?.socketID == (try? dead.socketID()) })
        marked.depart()
        let name = try #require(ChannelName("news"))
        _ = hub.clients[0].directory.publish(
            [Publication(channel: name, event: "e", data: Array("1".utf8))], of: hub.app, tellsFacts: true
        ) { _ in
        }
        #expect(!marked.output.isEmpty, "it is a subscriber still")
        hub.turn()
        #expect(marked.output.isEmpty)
        try end(hub)
        try hub.turn { try alive.texts().contains { $0.contains(#""event":"e""#) } }
        #expect(try !dead.texts().contains { $0.contains(#""event":"e""#) })
        #expect(hub.facts("news").subscriptionCount == 1)
    }

    /// Other events that would close or notify it reach it before its turn.
    enum Event: CaseIterable {
        case terminated, deadlinePassed, activityEnded, tooSlow, appRemoved, hubEnds
    }

    @Test(arguments: Event.allCases) func anotherEndMeetsAMarkedOne(_ event: Event) async throws {
        var features = AppFeatures()
        if event == .deadlinePassed { features.authorizationDeadline = .seconds(3600) }
        let hub = try await hub(features: features)
        let dead = try hub.open()
        try hub.turn { hub.connections.contains { $0.phase == .open } }
        let marked = try #require(hub.connections.first)
        let id = try #require(try dead.socketID())
        if event != .deadlinePassed {
            let data = #"{"id":"u1"}"#
            let auth = hub.credentials.sign(.user(userData: data), socketID: id)
            dead.send(#"{"event":"pusher:signin","data":{"auth":"\#(auth)","user_data":"{\"id\":\"u1\"}"}}"#)
            try hub.turn { try dead.texts().contains { $0.contains("signin_success") } }
            try hub.ask(dead, for: "presence-room", as: "u1")
            try hub.turn { hub.facts("presence-room").userCount == 1 }
        }
        let clients = hub.clients[0]
        marked.depart()
        switch event {
        case .terminated: clients.terminate(UserKey("u1", of: 0))
        case .deadlinePassed: clients.lookAtIdentity(of: marked)
        case .activityEnded: marked.deadlineReached()
        case .tooSlow: marked.slow()
        case .appRemoved:
            clients.serve(try hub.context.firstApps.replaced(by: []))
        case .hubEnds: hub.context.mailboxes[0].post(.shutdown(hasSuccessor: false))
        }
        #expect(marked.output.isEmpty, "no close frame")
        #expect(marked.phase == (event == .tooSlow ? .gone : .departed))
        try end(hub)
        #expect(marked.phase == .gone)
        #expect(hub.admission.total == 0)
        #expect(hub.metrics.connections.level == 0)
        #expect(hub.metrics.webSockets.level == 0)
        #expect(hub.app.counts.connections.count == 0)
        #expect(hub.metrics.text.contains(#"disconnects_total{code="1006"} 1"#))
        #expect(hub.facts("presence-room").subscriptionCount == 0)
        if event == .hubEnds { try hub.turn { hub.loops[0].sourceCount == 0 } }
    }

    /// The user's new connection comes before the turn of the old one, on the same loop or another: nobody is told.
    @Test(arguments: 1...3) func aUserWhoseOldConnectionIsMarkedWasNeverGone(_ loops: Int) async throws {
        let hub = try await hub(loops: loops) { $0.channelLimits.shards.leaveGrace = .zero }
        let watcher = try hub.subscribed(to: "presence-room", as: "w")
        let old = try hub.subscribed(to: "presence-room", as: "u")
        let others = try (0..<60).map { _ in try hub.subscribed(to: "news") }
        for peer in others + [old] { peer.go() }
        try hub.turnUntilMarked(left: 1)
        let new = try hub.subscribed(to: "presence-room", as: "u")
        #expect(hub.users("presence-room") == ["u", "w"])
        try end(hub)
        #expect(hub.users("presence-room") == ["u", "w"])
        #expect(hub.facts("presence-room").subscriptionCount == 2)
        let heard = try watcher.texts()
        #expect(heard.count { $0.contains("member_added") } == 1)
        #expect(!heard.contains { $0.contains("member_removed") })
        new.go()
        try hub.turn { try watcher.texts().contains { $0.contains("member_removed") } }
        #expect(hub.users("presence-room") == ["w"])
    }

    /// Marked members, on any loop, do not keep a newcomer out; connected members do.
    @Test(arguments: 1...3) func aChannelIsNotFullOfTheDead(_ loops: Int) async throws {
        let hub = try await hub(loops: loops, limits: members { $0.presenceMembersMax = 6 })
        let others = try (0..<90).map { _ in try hub.subscribed(to: "news") }
        let dead = try (0..<6).map { try hub.subscribed(to: "presence-room", as: "d\($0)") }
        for peer in others + dead { peer.go() }
        try hub.turnUntilMarked(left: 0)
        let newcomers = try (0..<6).map { try hub.subscribed(to: "presence-room", as: "n\($0)") }
        #expect(hub.admission.hasDepartures)
        let late = try hub.open()
        try hub.ask(late, for: "presence-room", as: "late")
        try hub.turn { try late.texts().contains { $0.contains("subscription_error") } }
        try end(hub)
        #expect(hub.facts("presence-room").subscriptionCount == 6)
        #expect(hub.users("presence-room") == (0..<6).map { "n\($0)" })
        #expect(newcomers.count == 6)
    }

    @Test func neitherTheHubNorAnAddressNorAnAppIsFullOfTheDead() async throws {
        for change: @Sendable (inout GatewayConfiguration, inout AppLimits) -> Void in [
            { configuration, _ in
                configuration.admission.connectionsMax = 20
                configuration.admission.refusalsMax = 0
            },
            { configuration, _ in configuration.admission.connectionsPerAddressMax = 20 },
            { _, limits in limits.connectionsMax = 20 },
        ] {
            var limits = AppLimits()
            var configuration = GatewayConfiguration()
            change(&configuration, &limits)
            let bounds = configuration.admission
            let hub = try await hub(limits: limits) {
                $0.limits.departuresPerTurnMax = 1
                $0.admission.connectionsMax = bounds.connectionsMax
                $0.admission.refusalsMax = bounds.refusalsMax
                $0.admission.connectionsPerAddressMax = bounds.connectionsPerAddressMax
            }
            let dead = try (0..<20).map { _ in try hub.subscribed(to: "news") }
            for peer in dead { peer.go() }
            try hub.turnUntilMarked(left: 0)
            let newcomers = try (0..<20).map { _ in try hub.subscribed(to: "news") }
            #expect(newcomers.allSatisfy { $0.closeCode == nil })
            #expect(!hub.metrics.text.contains(#"_full"} 1"#), "nobody was refused")
            try end(hub)
            #expect(hub.admission.total == 20)
        }
    }

    /// Input that came before the end counts, even if a send detects the end first.
    @Test(arguments: [true, false], [false, true])
    func whatWasSaidBeforeTheEndCounts(metBySending: Bool, usesTLS: Bool) async throws {
        var features = AppFeatures()
        features.clientEvents = true
        let tls = usesTLS ? try Self.tls() : nil
        let hub = try await hub(features: features) { $0.tls = tls }
        let (dead, alive) = (try hub.subscribed(to: "private-a"), try hub.subscribed(to: "private-a"))
        let connection = try #require(hub.connections.first { $0.session?.socketID == (try? dead.socketID()) })
        // Without a turn of the hub before it sends to that socket.
        for number in 0..<3 {
            dead.send(#"{"event":"client-last","channel":"private-a","data":{"n":\#(number)}}"#)
        }
        dead.go()
        if metBySending {
            connection.queue(FrameWriter.frames(of: .pong()))
            connection.tickEnded()
        }
        try hub.turnUntilMarked(left: 1)
        try end(hub)
        try hub.turn { try alive.texts().count { $0.contains("client-last") } == 3 }
        #expect(hub.facts("private-a").subscriptionCount == 1)
    }
}
