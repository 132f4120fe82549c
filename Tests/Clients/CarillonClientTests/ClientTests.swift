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

    private func client() throws -> CarillonClient {
        let address = try #require(URL(string: "http://127.0.0.1:1"))
        var options = CarillonOptions(hub: address, key: "key", user: "u", folder: folder.url) { "T" }
        options.transport = network
        options.timeZone = { "UTC" }
        return try CarillonClient(options)
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
        let address = try #require(URL(string: "http://127.0.0.1:1"))
        let options = CarillonOptions(hub: address, key: "key", user: "u", folder: folder.url) { "T" }
        network.answer()
        let fetcher = ClientFetcher(options: options, transport: network)
        let found = try await fetcher.fetch([.note(dose: "gone"), .day("2025-11-20")]).get()
        #expect(found.map(\.isAbsent) == [true, false])
        let failed = await fetcher.fetch([.note(dose: "broken"), .day("2025-11-20")])
        #expect(throws: CarillonError.http(503)) { try failed.get() }
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

    func answer() { answering.set(true) }

    func connect(to url: URL) async throws -> any TransportSocket { PlayedSocket() }

    func get(_ url: URL, fields: [String: String]) async throws -> TransportReply {
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

    init() { tell("pusher:connection_established") }

    func send(_ text: String) {
        let frame = JSONTree.parsed(text)
        switch frame["event"]?.string {
        case "sync:auth": tell("sync:auth_ok")
        case "pusher:subscribe":
            tell("pusher_internal:subscription_succeeded", channel: frame["data"]?["channel"]?.string)
        default: break
        }
    }

    func close() { inbox.add(.closed(code: 1000, reason: "")) }

    private func tell(_ event: String, channel: String? = nil) {
        let member = channel.map { #", "channel": "\#($0)""# } ?? ""
        inbox.add(.text(#"{"event": "\#(event)", "data": "{}"\#(member)}"#))
    }
}
