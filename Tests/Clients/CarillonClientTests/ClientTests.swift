import Care
import Foundation
import JSON
import TestSupport
import Testing

@testable import CarillonClient

/// The client on a network that is played: what comes when is the test's to say.
@Suite(.ownThread, .timeLimit(.minutes(10))) struct ClientTests {
    private let folder: TemporaryFolder
    private let network = PlayedNetwork()

    init() throws { folder = try TemporaryFolder() }

    private func options(
        _ user: String = "u", token: @escaping @Sendable () -> String = { "T" }
    ) throws -> CarillonOptions {
        let address = try #require(URL(string: "http://127.0.0.1:1"))
        var options = CarillonOptions(hub: address, key: "key", user: user, folder: folder.url) { token() }
        options.transport = network
        options.timeZone = { "UTC" }
        return options
    }

    private func client() throws -> CarillonClient { try CarillonClient(options()) }

    /// A token that nobody has signed.
    private static func token(_ claims: String) -> String {
        let text = Data(claims.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
        return "e30.\(text.prefix { $0 != "=" }).x"
    }

    /// It is sent neither to sign in nor with a request; the queue stays.
    @Test(arguments: [("u", "v"), ("u", "U"), ("u", ""), ("\u{E9}", "e\u{301}"), ("u?>~", "u?>")])
    func aTokenOfAnotherUserGoesNowhere(user: String, other: String) async throws {
        let token = Self.token(#"{"exp": 1, "sub": "\#(other)"}"#)
        let options = try options(user) { token }
        let phone = try CarillonClient(options)
        try await phone.act(.markTaken("d1"))
        try await phone.start()
        try await phone.waits(for: "the problem", phone.problem, seconds: 20) { $0 == .wrongUser(other) }
        network.answer()
        let fetched = await ClientFetcher(options: options, transport: network).fetch([.today])
        #expect(throws: CarillonError.wrongUser(other)) { try fetched.get() }
        #expect(network.sent.allSatisfy { !$0.contains("sync:auth") } && network.requests.isEmpty)
        #expect(phone.queueLength.current == 1 && phone.connection.current == .signingIn)
        await phone.close()
    }

    /// What cannot be read, the hub judges.
    @Test(arguments: ["T", "a.b.c", "..", token("[]"), token(#"{"sub": 7}"#), token("{}"), token(#"{"sub": "u"}"#)])
    func anyOtherTokenIsSent(token: String) async throws {
        network.answer()
        let phone = try CarillonClient(options { token })
        try await phone.start()
        try await phone.waits(for: "the session", phone.connection, seconds: 20) { $0 == .connected }
        #expect(network.sent.contains { $0.contains(token) })
        await phone.close()
    }

    /// The worst order: the snapshots come after all messages. What is here is confirmed all the same.
    @Test func aSnapshotMayBeTheLastThingThatComes() async throws {
        let phone = try client()
        try await phone.start()
        try await phone.waits(for: "the session", phone.connection, seconds: 20) { $0 == .connected }
        #expect(phone.lastSyncAt.current == nil)
        network.answer()
        try await phone.waits(for: "a sync", phone.lastSyncAt, seconds: 20) { _ in true }
        await phone.close()
    }

    /// The disk is full for a moment when the client begins to lead: it connects when there is room.
    @Test func aFullDiskAtTheStartIsNotTheEnd() async throws {
        let phone = try client()
        await phone.failNextWrite()
        try await phone.start()
        #expect(phone.problem.current == .storage("full"))
        try await phone.waits(for: "the session", phone.connection, seconds: 20) { $0 == .connected }
        await phone.close()
    }

    /// A note of a dose that is gone holds up nothing else.
    @Test func whatTheHubHasNotHoldsUpNothing() async throws {
        network.answer()
        let fetcher = ClientFetcher(options: try options(), transport: network)
        let found = try await fetcher.fetch([.note(dose: "gone"), .day("2025-11-20")]).get()
        #expect(found.map(\.isAbsent) == [true, false])
        let failed = await fetcher.fetch([.note(dose: "broken"), .day("2025-11-20")])
        #expect(throws: CarillonError.http(503)) { try failed.get() }
    }

    /// A loop hears that all is well again.
    @Test func whatGoesIsTold() async throws {
        network.answer()
        let (token, zone) = (Guarded(""), Guarded("UTC"))
        var options = try options { token.with { $0 } }
        options.timeZone = { zone.with { $0 } }
        let phone = try CarillonClient(options)
        let problems = Task { await phone.problem.reduce(into: [CarillonError?]()) { $0.append($1) } }
        let zones = Task { await phone.zoneChanged.reduce(into: [CarillonZoneChange?]()) { $0.append($1) } }
        try await phone.start()
        try await phone.waits(for: "a problem", phone.problem, seconds: 20) { $0 == .noToken }
        token.with { $0 = "T" }
        try await phone.waits(for: "no problem", phone.problem, seconds: 20) { $0 == nil }
        try await phone.waits(for: "the lists", phone.medications(), seconds: 20) { _ in true }
        zone.with { $0 = "Asia/Tokyo" }
        try await phone.act(CarillonAction("x"))
        try await phone.waits(for: "the zone", phone.zoneChanged, seconds: 20) { $0?.to == "Asia/Tokyo" }
        try await phone.setZone(.keep)
        try await phone.waits(for: "the zone", phone.zoneChanged, seconds: 20) { $0 == nil }
        await phone.close()
        let (said, moved) = (await problems.value, await zones.value)
        #expect(said.contains(.noToken) && said.last == .some(nil))
        #expect(moved.contains { $0?.to == "Asia/Tokyo" } && moved.last == .some(nil))
    }

    /// The device has slept, and the hub is away: no timer has run, and the values are those of now all the same.
    @Test func whatTimeChangesIsSeenAfterASleep() async throws {
        let clock = Guarded(Date(timeIntervalSince1970: 1_763_629_200))
        var options = try options()
        options.now = { clock.with { $0 } }
        let phone = try CarillonClient(options)
        try await phone.start()
        network.answer()
        try await phone.waits(for: "the list", phone.reminders(), seconds: 20) { _ in true }
        try await phone.act(CarillonAction("createReminder", ["productId": "p", "time": "08:00", "timezone": "UTC"]))
        for _ in 0..<3 {
            let first = try #require(phone.reminders().current?.rules.first?.upcoming.first)
            clock.with { $0 = first.start.addingTimeInterval(5 * 86_400) }
            try await phone.waits(for: "the times of now", phone.reminders(), seconds: 20) { reminders in
                let next = reminders.rules.first?.upcoming ?? []
                return next.count == 10 && next[0].start == first.start.addingTimeInterval(6 * 86_400)
            }
        }
        await phone.close()
    }

    @Test func aClosedClientKeepsNobodyWaiting() async throws {
        let phone = try client()
        let early = phone.today().makeAsyncIterator()
        await phone.close()
        var (iterator, late) = (early, phone.queueLength.makeAsyncIterator())
        #expect(await iterator.next() == nil)
        #expect(await late.next() == 0)
        #expect(await late.next() == nil)
    }
}

extension CarillonClient {
    fileprivate func failNextWrite() {
        let next = store.writes + 1
        store.failure = { if $0 == next { throw CarillonError.storage("full") } }
    }
}

/// A network with a hub that accepts everybody, and whose database is empty. Snapshots wait for `answer`.
private final class PlayedNetwork: ClientTransport {
    private let answering = CarillonValues<Bool>()
    private let log = Guarded<(sent: [String], requests: [URL])>(([], []))

    var sent: [String] { log.with { $0.sent } }
    var requests: [URL] { log.with { $0.requests } }

    func answer() { answering.set(true) }

    func connect(to url: URL) async throws -> any TransportSocket {
        PlayedSocket { [log] text in log.with { $0.sent.append(text) } }
    }

    func get(_ url: URL, fields: [String: String]) async throws -> TransportReply {
        log.with { $0.requests.append(url) }
        _ = await answering.first { $0 }
        if url.path.hasSuffix("/gone") { return TransportReply(status: 404, fields: [:], body: []) }
        if url.path.hasSuffix("/broken") { return TransportReply(status: 503, fields: [:], body: []) }
        let date =
            url.query?.split(separator: "=").last.map(String.init)
            ?? TimeText.text(Timestamp(Date()).date(utcOffset: 0))
        let body = #"{"items": [], "stacks": [], "settings": {"timezone": "UTC"}, "summary": {"date": "\#(date)"}}"#
        return TransportReply(status: 200, fields: ["x-sync-position": "e:0"], body: Array(body.utf8))
    }
}

private struct PlayedSocket: TransportSocket {
    let inbox = SocketInbox()
    let note: @Sendable (String) -> Void

    init(_ note: @escaping @Sendable (String) -> Void) {
        self.note = note
        tell("pusher:connection_established")
    }

    func send(_ text: String) {
        note(text)
        let frame = JSONTree.parsed(text)
        switch frame["event"]?.string {
        case "sync:auth": tell("sync:auth_ok", data: #"{\"userId\": \"u\"}"#)
        case "pusher:subscribe":
            tell("pusher_internal:subscription_succeeded", channel: frame["data"]?["channel"]?.string)
        default: break
        }
    }

    func close() { inbox.add(.closed(code: 1000, reason: "")) }

    private func tell(_ event: String, channel: String? = nil, data: String = "{}") {
        let member = channel.map { #", "channel": "\#($0)""# } ?? ""
        inbox.add(.text(#"{"event": "\#(event)", "data": "\#(data)"\#(member)}"#))
    }
}
