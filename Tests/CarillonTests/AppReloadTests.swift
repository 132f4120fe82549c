import Foundation
import Glibc
import Pusher
import TestSupport
import Testing

@testable import carillon

@Suite(.ownThread, .serialized, .timeLimit(.minutes(15)))
struct AppReloadTests {
    /// A configuration with these apps.
    private func configuration(_ apps: String, loops: Int = 2) -> String {
        #"{"listen": "127.0.0.1:0", "operations": {"listen": "off"}, "loops": \#(loops), "#
            + #""webhooks": {"allowPrivate": true}, "presence": {"leaveGrace": "0s"}, "apps": [\#(apps)]}"#
    }

    private func device(_ port: Substring, _ key: String) throws -> Device {
        try Device(HubAddress("ws://127.0.0.1:\(port)"), appKey: key, stop: Latch())
    }

    private func isEstablished(_ device: Device) throws -> Bool {
        if case .established = try device.next() { true } else { false }
    }

    private func subscribe(_ device: Device, _ channel: String) throws {
        try device.subscribe(channel)
        // A hub whose database is unreachable reports that sooner or later.
        while true {
            let said = try device.next()
            if case .closed = said { return #expect(Bool(false), "closed") }
            if said == .subscribed(channel: channel, position: nil) { return }
        }
    }

    @Test func appsAreReadAnewAndNobodyIsDropped() throws {
        let receiver = try Receiver()
        let file = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: file) }
        func write(_ text: String) throws { try text.write(toFile: file, atomically: true, encoding: .utf8) }
        try write(configuration(#"{"id": "1", "key": "one", "secret": "old"}"#))
        // A proxy that does not exist: webhooks ignore these variables.
        let hub = try RunningCommand(
            ["serve", "--config", file], isMixed: true,
            environment: ["http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"])
        let port = try #require(hub.line(containing: #""listening""#)?.firstMatch(of: /127\.0\.0\.1:(\d+)/)?.1)
        let one = try device(port, "one")
        #expect(try isEstablished(one))
        try subscribe(one, "before")

        // An invalid file changes nothing, and the log names the problem.
        try write(configuration(#"{"id": "1", "key": "one", "secret": "old", "limits": {"connections": 0}}"#))
        hub.signal(SIGHUP)
        let complaint = try #require(hub.line(containing: "apps stay as they were"))
        #expect(complaint.contains("connections"))
        try subscribe(one, "between")

        let hooks = #""webhooks": [{"url": "\#(receiver.url())", "events": ["channel_existence"]}]"#
        let first = #"{"id": "1", "key": "one", "secret": "new", "previousSecret": "old", \#(hooks)}"#
        try write(configuration(#"\#(first), {"id": "2", "key": "two", "secret": "s"}"#, loops: 1))
        hub.signal(SIGHUP)
        let said = try #require(hub.line(containing: "apps read anew"))
        #expect(said.contains("came") && said.contains("changed"))
        #expect(hub.line(containing: "takes a restart")?.contains("loops") == true)
        try subscribe(one, "after")
        let told = try #require(receiver.wait(for: 1).first)
        #expect(told.body.contains(#"{"name":"channel_occupied","channel":"after"}"#))
        let signature = Array(told.body.utf8).withUnsafeBytes {
            AppCredentials(key: "one", secret: "old").code(ofText: $0)
        }
        #expect(told.field("x-pusher-signature") == signature)
        #expect(told.field("user-agent") == "Carillon/\(Carillon.version)")
        let two = try device(port, "two")
        #expect(try isEstablished(two))

        // The second app is removed with its connections; the first one's stay.
        try write(configuration(first))
        hub.signal(SIGHUP)
        #expect(hub.line(containing: "apps read anew") != nil)
        #expect(try nextClose(two) == 4001)
        try subscribe(one, "at-last")
        #expect(receiver.wait(for: 2).last?.body.contains("at-last") == true)
        #expect(hub.stop(SIGTERM) == 0)
    }

    /// If the environment sets the apps, they are not read again.
    @Test func appsOfTheEnvironmentStay() throws {
        let file = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try configuration(#"{"id": "2", "key": "two", "secret": "s"}"#).write(
            toFile: file, atomically: true, encoding: .utf8)
        let hub = try RunningCommand(
            ["serve", "--config", file], isMixed: true,
            environment: ["CARILLON_APPS": #"[{"id": "1", "key": "one", "secret": "s"}]"#])
        let port = try #require(hub.line(containing: #""listening""#)?.firstMatch(of: /127\.0\.0\.1:(\d+)/)?.1)
        #expect(hub.line(containing: "ready") != nil)
        hub.signal(SIGHUP)
        let said = try #require(hub.line(containing: "SIGHUP"))
        #expect(said.contains("CARILLON_APPS is set: the file's apps are not read; restart to change them"))
        #expect(said.contains(#""info""#))
        // Reported once; settings that need a restart are reported each time.
        try configuration(#"{"id": "2", "key": "two", "secret": "s"}"#, loops: 1).write(
            toFile: file, atomically: true, encoding: .utf8)
        for _ in 0..<2 {
            hub.signal(SIGHUP)
            #expect(hub.line(containing: "SIGHUP")?.contains("loops") == true)
        }
        #expect(try isEstablished(device(port, "one")))
        #expect(hub.stop(SIGTERM) == 0)
    }

    /// A change that needs a restart is refused as a whole, and the log names the setting.
    @Test func whatTakesARestartIsRefused() throws {
        let file = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: file) }
        let one = #"{"id": "1", "key": "one", "secret": "s"}"#
        func write(_ owner: String?, _ apps: String, _ limits: String = "") throws {
            let owner = owner.map { #""databaseApp": "\#($0)", "# } ?? ""
            let text =
                #"{"listen": "127.0.0.1:0", "operations": {"listen": "off"}, \#(limits)"#
                + #""databaseURL": "postgresql://127.0.0.1:1/none", "jwt": {"secret": "\#(String(repeating: "s", count: 40))"}, "#
                + #"\#(owner)"apps": [\#(apps)]}"#
            try text.write(toFile: file, atomically: true, encoding: .utf8)
        }
        // One app: whose database it is need not be said.
        try write(nil, one)
        let hub = try RunningCommand(["serve", "--config", file], isMixed: true)
        let port = try #require(hub.line(containing: #""listening""#)?.firstMatch(of: /127\.0\.0\.1:(\d+)/)?.1)
        let device = try device(port, "one")
        #expect(try isEstablished(device))

        let two = #"{"id": "2", "key": "two", "secret": "s"}"#
        try write(nil, one + ", " + two)
        hub.signal(SIGHUP)
        #expect(hub.line(containing: "apps stay as they were")?.contains("databaseApp is not set") == true)
        try write("2", one + ", " + two)
        hub.signal(SIGHUP)
        let otherOwner = try #require(hub.line(containing: "apps stay as they were"))
        #expect(otherOwner.contains("database"))

        let long = #"{"id": "1", "key": "one", "secret": "s", "limits": {"eventBytes": 100000}}, \#(two)"#
        try write("1", long)
        hub.signal(SIGHUP)
        let longer = try #require(hub.line(containing: "apps stay as they were"))
        #expect(longer.contains("655360 bytes of a request do not hold"))
        #expect(longer.contains("restart the hub") && longer.contains("eventBytes (100000)"))

        // The app is still served as before, and the other one is not.
        try subscribe(device, "still")
        #expect(try nextClose(self.device(port, "two")) == 4001)
        try write("1", one + ", " + two)
        hub.signal(SIGHUP)
        #expect(hub.line(containing: "apps read anew") != nil)
        #expect(try isEstablished(self.device(port, "two")))
        // The setting names the app that the database has belonged to from the start: no restart is needed for that.
        try write("1", one + ", " + two, #""loops": 3, "#)
        hub.signal(SIGHUP)
        let waiting = try #require(hub.line(containing: "takes a restart"))
        #expect(waiting.contains("loops") && !waiting.contains("databaseApp"))
        #expect(hub.stop(SIGTERM) == 0)
    }

    /// The code that a connection is closed with, after any messages.
    private func nextClose(_ device: Device) throws -> UInt16? {
        while true {
            switch try device.next() {
            case .closed(let code): return code
            default: continue
            }
        }
    }
}
