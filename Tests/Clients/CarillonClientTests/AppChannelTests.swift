import Crypto
import Foundation
import JSON
import TestDatabase
import TestSupport
import Testing

@testable import CarillonClient

/// Channels of the app's own, on a real hub.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) struct AppChannelTests {
    /// What an app's backend signs.
    private static func signed(_ channel: String, _ socketID: String) -> CarillonChannelAuth {
        let data = channel.hasPrefix("presence-") ? #"{"user_id":"ana"}"# : nil
        let text = ([socketID, channel] + (data.map { [$0] } ?? [])).joined(separator: ":")
        let code = HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: SymmetricKey(data: Data("secret".utf8)))
        let digits = code.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
        return CarillonChannelAuth(auth: "key:\(digits)", channelData: data)
    }

    private struct Refused: Error {}

    /// The messages of a channel, and the task that listens. The number of its subscribers may come at once after the first.
    private func listen(
        _ phone: CarillonClient, _ channel: String
    ) async -> (heard: CarillonValues<[CarillonMessage]>, Task<Void, Never>) {
        let messages = await phone.subscribe(channel)
        let heard = CarillonValues<[CarillonMessage]>([])
        return (heard, Task { for await message in messages { heard.set((heard.current ?? []) + [message]) } })
    }

    private static func succeeded(_ messages: [CarillonMessage]) -> Bool {
        messages.contains { $0.event == "pusher:subscription_succeeded" }
    }

    @Test func anyChannelCanBeHeard() async throws {
        let stage = try await HubStage(doses: 1)
        let phone = try stage.device("phone")
        try await phone.start()
        let (heard, listening) = await listen(phone, "news")
        try await phone.waits(for: "the channel", heard, Self.succeeded)
        listening.cancel()
        await stage.end()
    }

    @Test(arguments: ["private-room", "presence-room"]) func aSignedChannelIsHeard(_ channel: String) async throws {
        let stage = try await HubStage(doses: 1)
        let sockets = Guarded<[String]>([])
        let phone = try stage.device("phone") { options in
            options.authorize = { channel, socketID in
                sockets.with { $0.append(socketID) }
                return Self.signed(channel, socketID)
            }
        }
        // Before there is a connection, and on each one anew.
        let (heard, listening) = await listen(phone, channel)
        try await phone.start()
        let joined = try await phone.waits(for: "the channel", heard, Self.succeeded)
        #expect(joined.first?.data.contains("ana") == channel.hasPrefix("presence-"))
        await phone.suspend()
        heard.set([])
        try await phone.start()
        try await phone.waits(for: "the channel again", heard, Self.succeeded)
        #expect(Set(sockets.with { $0 }).count == 2)
        // On a connection that is there.
        let (other, also) = await listen(phone, channel + "-2")
        try await phone.waits(for: "another one", other, Self.succeeded)
        listening.cancel()
        also.cancel()
        await stage.end()
    }

    @Test func aRefusalIsTold() async throws {
        let stage = try await HubStage(doses: 1)
        let (plain, refused) = (
            try stage.device("plain"), try stage.device("refused") { $0.authorize = { _, _ in throw Refused() } }
        )
        for phone in [plain, refused] {
            try await phone.start()
            let (heard, listening) = await listen(phone, "private-room")
            try await phone.waits(for: "a refusal", heard) { messages in
                messages.contains { $0.event == "pusher:subscription_error" }
            }
            listening.cancel()
        }
        await stage.end()
    }
}
