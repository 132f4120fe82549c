import Bytes
import Foundation
import Glibc
import Pusher
import Reactor
import Synchronization
import TestSupport
import Testing
import WebSocket

@testable import loadtest

@Suite(.ownThread) struct ReturningScriptTests {
    private static let channel = "user.load-t-0.reminders"

    /// One client at position 3 comes to a hub that tells it these things, each after a `sync:resume`.
    private func come(_ answers: [[String]]) throws -> (script: ReturningScript, offsets: [Int64], asked: [String]) {
        let hub = try ScriptedHub(answers)
        let names = Names(run: "t", topics: ["reminders"])
        let script = ReturningScript(AppCredentials(key: "key", secret: "secret"), names, clients: 1, epoch: "e")
        let swarm = try Swarm(
            try LoadAddress("127.0.0.1:\(hub.port)"), target: "/app/key", loop: try EventLoop(), script: script, seed: 1
        )
        let crowd = Crowd(swarm, script, offsets: [[3]], pause: { _ in .milliseconds(1) })
        _ = try crowd.comeBack(at: .read(), progress: ProgressLine())
        let offsets = Array(crowd.offsets[0])
        _ = crowd.dropAll()
        return (script, offsets, hub.asked)
    }

    private static func resumed(_ offset: Int, _ rest: String) -> String {
        #"{"event":"sync:resumed","data":"{\"channels\":{\"\#(channel)\":{\"epoch\":\"e\",\"offset\":\#(offset),"#
            + rest.replacing("\"", with: #"\""#) + #"}}}"}"#
    }

    private static func event(_ offset: Int) -> String {
        #"{"event":"reminder.updated","channel":"\#(channel)","#
            + #""data":"{\"id\":\"load-t-0\",\"rev\":\#(offset),\"_sync\":{\"o\":\#(offset),\"k\":null}}"}"#
    }

    /// The hub tells live events meanwhile. They are beyond the gap, and come again with what the log has.
    @Test func aLogThatCannotBeReadIsAskedForAgain() throws {
        let unavailable = #""recovered":false,"reason":"store_unavailable""#
        let (script, offsets, asked) = try come([
            [Self.resumed(5, unavailable), Self.event(6)],
            [Self.resumed(6, unavailable)],
            [Self.event(7), Self.resumed(7, #""recovered":true,"replayed":4"#)] + (4...7).map(Self.event),
        ])
        #expect(offsets == [7])
        #expect((script.unavailable, script.recovered, script.astray) == (2, 1, 0))
        #expect(script.lost == [:])
        #expect(asked.count == 3 && Set(asked).count == 1, "always from the same position")
        #expect(asked.first?.contains(#""offset":3"#) == true)
    }

    @Test func anotherLossIsCountedByItsReason() throws {
        let (script, offsets, asked) = try come([[Self.resumed(9, #""recovered":false,"reason":"position_expired""#)]])
        #expect(script.lost == ["position_expired": 1])
        #expect((script.unavailable, script.recovered, offsets, asked.count) == (0, 0, [9], 1))
    }
}

/// A hub for one client. On a thread of its own.
final class ScriptedHub: Sendable {
    let port: UInt16
    private let listener: Int32
    private let heard = Mutex<[String]>([])

    private struct NoSocket: Error {}

    /// Every `sync:resume` that came.
    var asked: [String] { heard.withLock { $0 } }

    init(_ answers: [[String]]) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isMade = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isMade else { throw NoSocket() }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in serve(answers) }
    }

    deinit { close(listener) }

    private func serve(_ answers: [[String]]) {
        let socket = accept(listener, nil, nil)
        defer { close(socket) }
        guard welcome(socket) else { return }
        say(
            #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.2\",\"activity_timeout\":120}"}"#,
            socket)
        var answers = answers[...]
        var reader = MessageReader(role: .server)
        var rest: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 4_096)
        while case let count = recv(socket, &room, room.count, 0), count > 0 {
            rest += room[..<count]
            var consumed = 0
            let texts = rest.withUnsafeMutableBytes { bytes in
                var texts: [String] = []
                while case .text(let payload)? = try? reader.read(bytes, consumed: &consumed, limits: MessageLimits()) {
                    payload.withUnsafeBytes(in: bytes) { texts.append($0.string) }
                }
                return texts
            }
            rest.removeFirst(consumed)
            for text in texts where text.contains("sync:resume") {
                heard.withLock { $0.append(text) }
                for answer in answers.popFirst() ?? [] { say(answer, socket) }
            }
        }
    }

    private func welcome(_ socket: Int32) -> Bool {
        var request: [UInt8] = []
        var byte: UInt8 = 0
        while !request.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            guard recv(socket, &byte, 1, 0) == 1 else { return false }
            request.append(byte)
        }
        let field = "Sec-WebSocket-Key: "
        let lines = String(decoding: request, as: UTF8.self).split(separator: "\r\n")
        guard let line = lines.first(where: { $0.hasPrefix(field) }) else { return false }
        var answer = ByteWriter()
        answer.append("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        answer.append("Sec-WebSocket-Accept: ")
        Array(line.utf8.dropFirst(field.utf8.count)).withUnsafeBytes { AcceptKey.append(for: $0, to: &answer) }
        answer.append("\r\n\r\n")
        write(answer, socket)
        return true
    }

    private func say(_ text: String, _ socket: Int32) {
        var frame = ByteWriter()
        FrameWriter.appendText(to: &frame) { writer in
            Array(text.utf8).withUnsafeBytes { writer.append($0) }
        }
        write(frame, socket)
    }

    private func write(_ bytes: borrowing ByteWriter, _ socket: Int32) {
        bytes.withUnsafeBytes { bytes in
            _ = send(socket, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        }
    }
}
