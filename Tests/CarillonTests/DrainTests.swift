import Bytes
import Foundation
import Glibc
import TestSupport
import Testing

@testable import carillon

@Suite(.ownThread, .timeLimit(.minutes(15)))
struct DrainTests {
    private func hub(pause: String) throws -> (RunningCommand, port: Substring, operations: Substring) {
        let hub = try RunningCommand(
            ["serve", "--listen", "127.0.0.1:0", "--operations-listen", "127.0.0.1:0", "--drain-pause", pause],
            isMixed: true, environment: ["CARILLON_APPS": #"[{"id": "1", "key": "one", "secret": "s"}]"#])
        let line = try #require(hub.line(containing: #""listening""#))
        let port = try #require(line.firstMatch(of: /"address":"127\.0\.0\.1:(\d+)/)).1
        let operations = try #require(line.firstMatch(of: /"operations":"127\.0\.0\.1:(\d+)/)).1
        #expect(hub.line(containing: #""ready""#) != nil)
        return (hub, port, operations)
    }

    private func device(_ port: Substring) throws -> Device {
        let device = try Device(HubAddress("ws://127.0.0.1:\(port)"), appKey: "one", stop: Latch())
        guard case .established = try device.next() else { throw Failure("not established") }
        return device
    }

    private func isReady(_ port: Substring) throws -> Bool {
        let socket = try ClientSocket(HubAddress("http://127.0.0.1:\(port)"), stop: Latch())
        try Array("GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n".utf8).withUnsafeBytes { try socket.send($0) }
        var answer = [UInt8](repeating: 0, count: 4_096)
        let count = try answer.withUnsafeMutableBytes { try socket.receive(into: $0, timeout: .seconds(60)) }
        return String(decoding: answer[..<count], as: UTF8.self).hasPrefix("HTTP/1.1 200 ")
    }

    /// Longer than any machine is busy; the second signal ends it.
    @Test func servesOnAndIsNotReady() throws {
        let (hub, port, operations) = try hub(pause: "10m")
        let before = try device(port)
        #expect(try isReady(operations))
        hub.signal(SIGTERM)
        #expect(hub.line(containing: #""draining""#)?.contains(#""pause":"10m""#) == true)
        #expect(try !isReady(operations))
        for device in [before, try device(port)] {
            try device.subscribe("news")
            #expect(try device.next() == .subscribed(channel: "news", position: nil))
        }
        #expect(hub.stop(SIGTERM) == 128 + SIGTERM)
    }

    @Test(arguments: ["100ms", "0s"]) func closesAfterThePause(_ pause: String) throws {
        let (hub, port, _) = try hub(pause: pause)
        let device = try device(port)
        hub.signal(SIGTERM)
        #expect(try device.next() == .closed(code: 1001))
        #expect(hub.end() == 0)
    }
}
