import Bytes
import Foundation
import Glibc
import HTTP
import Sync
import TestSupport
import Testing
import WebSocket

@testable import carillon

@Suite(.ownThread, .timeLimit(.minutes(15)))
struct TailTests {
    @Test(
        arguments: [
            ("ws://127.0.0.1:6001", "127.0.0.1", 6001, "", "127.0.0.1:6001"),
            ("ws://hub.example.org/", "hub.example.org", 80, "", "hub.example.org:80"),
            ("http://[::1]:7/ws/", "::1", 7, "/ws", "[::1]:7"),
            ("wss://hub.example.org", "hub.example.org", 443, "", "hub.example.org:443"),
            ("https://127.0.0.1:6443/", "127.0.0.1", 6443, "", "127.0.0.1:6443"),
        ] as [(String, String, UInt16, String, String)])
    func readsAddresses(_ url: String, _ host: String, _ port: UInt16, _ prefix: String, _ authority: String) throws {
        let address = try HubAddress(url)
        #expect(address.host == host)
        #expect(address.port == port)
        #expect(address.prefix == prefix)
        #expect(address.authority == authority)
        #expect(address.usesTLS == (url.hasPrefix("wss") || url.hasPrefix("https")))
    }

    @Test(arguments: ["", "127.0.0.1:6001", "wsx://h:1", "ws://", "ws://:1", "ws://h:99999", "ws://h:1/a b"])
    func refusesAddresses(_ url: String) {
        #expect(throws: Failure.self) { try HubAddress(url) }
    }

    /// Pusher's own path, which the command appends by itself.
    @Test(arguments: [
        ("ws://127.0.0.1:6001/app", "/app", "ws://127.0.0.1:6001"), ("wss://h/app/", "/app", "wss://h"),
        ("ws://h:1/app/key", "/app/key", "ws://h:1"),
    ])
    func saysWhichPathIsTooMuch(_ url: String, _ path: String, _ address: String) {
        let failure = #expect(throws: Failure.self) { try HubAddress(url) }
        #expect(failure?.description == "--url \(url): leave off \(path), the command adds it by itself: \(address)")
        #expect(throws: Never.self) { try HubAddress("ws://h:1/apps") }
    }

    @Test func comesBackAsCloseCodesSay() {
        #expect(TailCommand.delay(after: 4001) < .zero)
        #expect(TailCommand.delay(after: 4100) == .seconds(1))
        #expect(TailCommand.delay(after: 4200) < .seconds(1))
        #expect(TailCommand.delay(after: nil) == .seconds(1))
        #expect(TailCommand.delay(after: 1001) == .seconds(1))
    }

    @Test func receivesWhatAHubSends() throws {
        let hub = try ScriptedHub { peer in
            peer.text(
                #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\",\"activity_timeout\":120}"}"#)
            peer.text(#"{"event":"sync:auth_ok","data":"{\"userId\":\"demo\"}"}"#)
            peer.ping("are you there")
            peer.text(#"{"event":"pusher:ping","data":{}}"#)
            peer.text(
                #"{"event":"pusher_internal:subscription_succeeded","channel":"user.demo.adherence","data":"{}"}"#)
            peer.text(#"{"event":"pusher:subscription_error","channel":"x","data":"{\"error\":\"no\"}"}"#)
            peer.text(#"{"event":"pusher:error","data":{"code":null,"message":"odd"}}"#)
            peer.text(#"{"event":"occurrence.updated","channel":"user.demo.adherence","data":"{\"n\":\"\\u00e9\"}"}"#)
            peer.text("[1]")
            peer.close(CloseCode(rawValue: 4200))
        }
        let device = try Device(HubAddress("ws://127.0.0.1:\(hub.port)"), appKey: "key", stop: Latch())
        try device.signIn(token: "a\"b")
        try device.subscribe("user.demo.adherence")
        #expect(try device.next() == .established(socketID: "1.2"))
        #expect(try device.next() == .signedIn(userID: "demo"))
        #expect(try device.next() == .subscribed(channel: "user.demo.adherence", position: nil))
        #expect(try device.next() == .refused(channel: "x", reason: "no"))
        #expect(try device.next() == .error(code: nil, message: "odd"))
        #expect(
            try device.next()
                == .event(channel: "user.demo.adherence", name: "occurrence.updated", data: #"{"n":"\u00e9"}"#))
        #expect(try device.next() == .error(code: nil, message: "a message that is no event"))
        #expect(try device.next() == .closed(code: 4200))
        #expect(throws: ClientSocket.Pause.self) { try device.next() }
    }

    @Test func stopsWhileItWaits() throws {
        let stop = Latch()
        let hub = try ScriptedHub { _ in stop.set() }
        let address = try HubAddress("ws://127.0.0.1:\(hub.port)")
        #expect {
            _ = try Device(address, appKey: "key", stop: stop).next()
        } throws: { error in
            if case .stopped? = error as? ClientSocket.Pause { true } else { false }
        }
    }

    @Test(arguments: [false, true])
    func endsWithARefusedTokenUnlessAChannelWasNamed(_ isChannelNamed: Bool) throws {
        let hub = try ScriptedHub { peer in
            peer.text(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\"}"}"#)
            peer.text(#"{"event":"pusher:error","data":{"code":null,"message":"The token has expired"}}"#)
            peer.close(CloseCode(rawValue: 4200))
        }
        let url = "ws://127.0.0.1:\(hub.port)"
        let target = Target(
            address: try HubAddress(url), appKey: "key",
            channels: ["user.demo.adherence"] + (isChannelNamed ? ["news"] : []), isOnlyUsers: !isChannelNamed,
            token: { "old" })
        let device = try Device(target.address, appKey: "key", stop: Latch())
        var cursors = Cursors()
        let ending = try TailCommand.follow(device, target, &cursors, EventPrinter())
        #expect(ending == (isChannelNamed ? .closed(code: 4200) : .tokenRefused("The token has expired")))
    }

    @Test(arguments: [false, true]) func endsWhereEveryChannelIsRefused(_ isEach: Bool) throws {
        @Sendable func refused(_ channel: String) -> String {
            #"{"event":"pusher:subscription_error","channel":"\#(channel)","data":"{\"error\":\"no \#(channel)\"}"}"#
        }
        let hub = try ScriptedHub { peer in
            peer.text(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\"}"}"#)
            peer.text(refused("private-a"))
            peer.text(refused("private-a"))
            if isEach { peer.text(refused("presence-b")) }
            peer.close(CloseCode(rawValue: 4001))
        }
        let tail = try RunningCommand(
            [
                "tail", "--url", "ws://127.0.0.1:\(hub.port)", "--app-key", "k", "--channel", "private-a", "--channel",
                "presence-b",
            ], isMixed: true)
        let lines = tail.rest().split(separator: "\n")
        #expect(tail.end() == 1)
        #expect(lines.contains("refused private-a: no private-a"))
        #expect(
            lines.last
                == (isEach
                    ? "carillon: the hub refuses every channel: see the lines above"
                    : "carillon: the hub refuses this client for good: see the line above"))
    }

    @Test func remembersWhereItWas() throws {
        let channel = "user.demo.adherence"
        @Sendable func event(_ offset: Int) -> String {
            #"{"event":"x","channel":"\#(channel)","data":"{\"_sync\":{\"o\":\#(offset),\"k\":null}}"}"#
        }
        let hub = try ScriptedHub { peer in
            peer.text(
                #"{"event":"pusher_internal:subscription_succeeded","channel":"user.demo.adherence","#
                    + #""data":"{\"sync\":{\"epoch\":\"e.1\",\"offset\":3}}"}"#)
            peer.text(event(4))
            peer.text(event(6))
            peer.text(event(5))
            peer.text(
                #"{"event":"sync:resumed","data":"{\"channels\":{\"user.demo.adherence\":{\"epoch\":\"e.2\","#
                    + #"\"offset\":9,\"recovered\":false,\"reason\":\"stream_reset\"}}}"}"#)
            peer.text(#"{"event":"sync:status","data":"{\"degraded\":false}"}"#)
            peer.text(event(10))
            peer.close(CloseCode(rawValue: 4200))
        }
        let target = Target(
            address: try HubAddress("ws://127.0.0.1:\(hub.port)"), appKey: "key", channels: [channel],
            isOnlyUsers: true, token: { nil })
        var cursors = Cursors()
        let device = try Device(target.address, appKey: "key", stop: Latch())
        #expect(try TailCommand.follow(device, target, &cursors, EventPrinter()) == .closed(code: 4200))
        #expect(cursors.positions == [channel: StreamPosition(epoch: "e.2", offset: 10)])
    }

    @Test func tellsNextFromKnownFromGap() {
        var cursors = Cursors()
        #expect(cursors.step("news", data: "{}") == .next)
        cursors.begin("s", at: StreamPosition(epoch: "e", offset: 7))
        cursors.begin("s", at: StreamPosition(epoch: "e", offset: 9))
        #expect(cursors.step("s", data: #"{"a":1,"_sync":{"k":null,"o":9}}"#) == .gap)
        #expect(cursors.step("s", data: #"{"_sync":{"o":8}}"#) == .next)
        #expect(cursors.step("s", data: #"{"_sync":{"o":8}}"#) == .known)
        #expect(cursors.step("s", data: #"{"_sync":{"o":9223372036854775807}}"#) == .gap)
        #expect(cursors.step("s", data: #"{"_sync":{"o":-1}}"#) == .next)
        cursors.begin("r\"", at: StreamPosition(epoch: "e.2", offset: 0))
        var writer = ByteWriter()
        cursors.append(to: &writer)
        #expect(
            writer.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
                == #"{"v":1,"channels":{"r\"":{"epoch":"e.2","offset":0},"s":{"epoch":"e","offset":8}}}"#)
    }

    @Test func readsWhatIsResumed() {
        #expect(
            Resumption.parse(
                #"{"channels":{"a":{"epoch":"e","offset":9,"recovered":true,"replayed":2},"#
                    + #""b":{"recovered":false,"reason":"forbidden"}}}"#)
                == [
                    Resumption(channel: "a", position: StreamPosition(epoch: "e", offset: 9), replayed: 2),
                    Resumption(channel: "b", position: nil, replayed: nil, reason: "forbidden"),
                ])
        #expect(Resumption.parse("[]") == nil)
        #expect(Resumption.parse(#"{"channels":[]}"#) == nil)
    }

    @Test func warnsOfATopicThatIsNotPublished() throws {
        @Sendable func subscribed(_ topic: String, at offset: Int, _ more: String = "") -> String {
            #"{"event":"pusher_internal:subscription_succeeded","channel":"user.demo.\#(topic)","#
                + #""data":"{\"sync\":{\"epoch\":\"e.1\",\"offset\":\#(offset)\#(more)}}"}"#
        }
        let hub = try ScriptedHub { peer in
            peer.text(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\"}"}"#)
            peer.text(subscribed("adherence", at: 3))
            peer.text(subscribed("fresh", at: 0))
            peer.text(subscribed("reminder", at: 0, #",\"published\":false"#))
            peer.text(#"{"event":"pusher_internal:subscription_succeeded","channel":"news","data":"{}"}"#)
            peer.close(CloseCode(rawValue: 4001))
        }
        let tail = try RunningCommand(
            [
                "tail", "--url", "ws://127.0.0.1:\(hub.port)", "--app-key", "k", "--user", "demo", "--token", "t",
                "--channel", "news", "adherence", "reminder",
            ], isMixed: true)
        let lines = tail.rest().split(separator: "\n")
        #expect(tail.end() == 1)
        #expect(
            lines.filter { $0.hasPrefix("subscribed to ") } == [
                "subscribed to user.demo.adherence", "subscribed to user.demo.fresh, without any event so far",
                "subscribed to user.demo.reminder, without any event so far", "subscribed to news",
            ])
        #expect(
            lines.filter { $0.contains("warning") }
                == ["warning: nothing comes on user.demo.reminder: no table is published for this topic"])
    }

    @Test func saysWhyThereIsNoConnection() throws {
        let hub = try ScriptedHub(status: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") { _ in }
        let address = try HubAddress("ws://127.0.0.1:\(hub.port)")
        #expect {
            _ = try Device(address, appKey: "key", stop: Latch())
        } throws: { error in
            if case .closed(let reason)? = error as? ClientSocket.Pause { reason.contains("404") } else { false }
        }
    }
}

/// A hub that accepts one connection, answers its handshake, plays a script in pieces of a few bytes, and closes.
private final class ScriptedHub {
    /// A script's output: collected, then sent.
    struct Peer {
        fileprivate(set) var bytes: [UInt8] = []

        private mutating func add(_ write: (inout ByteWriter) -> Void) {
            var writer = ByteWriter()
            write(&writer)
            bytes += writer.withUnsafeBytes { Array($0) }
        }

        mutating func text(_ text: String) {
            add { writer in FrameWriter.appendText(to: &writer) { $0.append(utf8: text) } }
        }

        mutating func ping(_ text: String) {
            add { writer in
                Array(text.utf8).withUnsafeBytes { FrameWriter.append(control: Opcode.ping, $0, to: &writer) }
            }
        }

        mutating func close(_ code: CloseCode) {
            add { FrameWriter.appendClose(code, to: &$0) }
        }
    }

    let port: UInt16
    /// Set for good when nobody will connect any more.
    private let ended = Latch()

    /// - Parameter status: sent instead of a handshake.
    init(status: String? = nil, _ script: @escaping @Sendable (inout Peer) -> Void) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = bind(listener, address, length)
                _ = listen(listener, 1)
                _ = getsockname(listener, address, &length)
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        let ended = ended
        Thread.detachNewThread {
            // Closed only by this thread: if another closed it, the thread might accept from another test's listener with
            // the same number.
            defer { close(listener) }
            var waiting = [listener, ended.descriptor].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            while poll(&waiting, 2, -1) < 0, errno == EINTR {}
            if waiting[0].revents != 0 { Self.serve(listener, status: status, script) }
        }
    }

    deinit {
        ended.set()
    }

    private static func serve(_ listener: Int32, status: String?, _ script: (inout Peer) -> Void) {
        let peer = accept(listener, nil, nil)
        guard peer >= 0 else { return }
        defer { close(peer) }
        var request: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while !String(decoding: request, as: UTF8.self).hasSuffix("\r\n\r\n") {
            let count = recv(peer, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            request += buffer[..<count]
        }
        let answer = status.map { Array($0.utf8) } ?? accepting(request)
        _ = send(peer, answer, answer.count, Int32(MSG_NOSIGNAL))
        var sent = Peer()
        script(&sent)
        for start in stride(from: 0, to: sent.bytes.count, by: 7) {
            let piece = Array(sent.bytes[start..<min(start + 7, sent.bytes.count)])
            _ = send(peer, piece, piece.count, Int32(MSG_NOSIGNAL))
        }
        shutdown(peer, Int32(SHUT_WR))
        // Until the client closes: closing with unread bytes would reset the connection before it has read everything.
        while recv(peer, &buffer, buffer.count, 0) > 0 {}
    }

    private static func accepting(_ request: [UInt8]) -> [UInt8] {
        var request = request
        return request.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter()
            var parser = RequestParser()
            guard let request = try? parser.parse(bytes), let handshake = try? Handshake(request) else { return [] }
            handshake.accept(to: &writer)
            return writer.withUnsafeBytes { Array($0) }
        }
    }
}
