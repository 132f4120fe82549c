import Digests
import Foundation
import Gateway
import TestHub
import Testing

@testable import API

/// The demonstration of `carillon dev`: the files, and who gets a token. The page itself is tested in a browser.
@Suite(.timeLimit(.minutes(15))) struct DemonstrationTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Sources/Clients/Demonstration").standardized

    private func fixture(_ demonstration: DemonstrationRoutes?) async throws -> GatewayFixture {
        try await GatewayFixture(
            routes: HubRoutes(pusher: PusherRoutes(), users: nil, origins: .any, demonstration: demonstration))
    }

    private static let demonstration = DemonstrationRoutes(key: "key", user: "demo", zone: "UTC") {
        .init(token: "abc", seconds: 600)
    }

    private func ask(
        _ client: TestClient, _ line: String, _ fields: String
    ) async throws -> (head: String, body: String) {
        try await client.sendRaw("\(line) HTTP/1.1\r\nContent-Length: 0\r\n\(fields)\r\n")
        return try await client.response()
    }

    @Test func everyFileIsServed() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path).filter { $0 != "README.md" }
        #expect(names.count > 5 && Set(WebFile.demonstration.keys) == Set(names.map { "/demo/\($0)" }))
        for name in names where name != "index.html" {
            let bytes = try [UInt8](Data(contentsOf: Self.folder.appendingPathComponent(name)))
            #expect(WebFile.demonstration["/demo/\(name)"]?.body == bytes, "\(name)")
        }
    }

    /// The first paint waits for no second answer, and the policy names the page's style and no other.
    @Test func thePageHasItsStyle() async throws {
        let fixture = try await fixture(Self.demonstration)
        let client = try TestClient(port: fixture.port)
        let (head, body) = try await ask(client, "GET /demo", "Host: 127.0.0.1\r\n")
        let sheet = try String(contentsOf: Self.folder.appendingPathComponent("demo.css"), encoding: .utf8)
        let page = try String(contentsOf: Self.folder.appendingPathComponent("index.html"), encoding: .utf8)
        let link = #"<link rel="stylesheet" href="/demo/demo.css">"#
        #expect(page.contains(link) && body == page.replacing(link, with: "<style>\(sheet)</style>"))
        #expect(!body.contains("stylesheet") && !sheet.contains("<"))
        let digest = Array(sheet.utf8).withUnsafeBytes {
            SHA256.hash($0).withUnsafeBytes { Data($0).base64EncodedString() }
        }
        #expect(head.contains("; style-src 'sha256-\(digest)'\r\n"), "\(head)")
        #expect(try await !ask(client, "GET /demo/demo.js", "Host: 127.0.0.1\r\n").head.contains("style-src"))
    }

    @Test func theRootLeadsToIt() async throws {
        let fixture = try await fixture(Self.demonstration)
        let client = try TestClient(port: fixture.port)
        for method in ["GET", "HEAD"] {
            let (head, body) = try await ask(client, "\(method) /", "Host: 127.0.0.1:1\r\n")
            #expect(
                head.hasPrefix("HTTP/1.1 302 ") && head.contains("\r\nLocation: /demo\r\n") && body.isEmpty, "\(head)")
        }
    }

    @Test func aHubWithoutItHasNone() async throws {
        let fixture = try await fixture(nil)
        let client = try TestClient(port: fixture.port)
        for line in ["GET /", "GET /demo", "POST /demo/token", "GET /demo/demo.js"] {
            let fields = "Host: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n"
            #expect(try await ask(client, line, fields).head.hasPrefix("HTTP/1.1 404 "), "\(line)")
        }
    }

    @Test(arguments: [
        ("GET /demo", "Host: 127.0.0.1:1\r\n", "200"), ("GET /demo/", "Host: localhost\r\n", "200"),
        ("GET /demo/demo.css", "Host: [::1]:1\r\n", "200"), ("POST /demo", "Host: localhost\r\n", "405"),
        ("GET /demo", "Host: demo.example\r\n", "403"), ("GET /demo", "Host: 127.0.0.1.example\r\n", "403"),
        ("GET /demo/../demo.js", "Host: localhost\r\n", "404"),
        ("GET /", "Host: demo.example\r\n", "403"), ("POST /", "Host: localhost\r\n", "405"),
        ("POST /demo/token", "Host: localhost:1\r\nOrigin: http://localhost:1\r\n", "200"),
        ("POST /demo/token", "Host: localhost:1\r\nOrigin: https://localhost:1\r\n", "200"),
        ("POST /demo/token", "Host: localhost:1\r\n", "403"),
        ("POST /demo/token", "Host: localhost:1\r\nOrigin: http://localhost:2\r\n", "403"),
        ("POST /demo/token", "Host: localhost:1\r\nOrigin: null\r\n", "403"),
        ("POST /demo/token", "Host: demo.example\r\nOrigin: http://demo.example\r\n", "403"),
        ("GET /demo/token", "Host: localhost:1\r\nOrigin: http://localhost:1\r\n", "405"),
    ]) func onlyBrowsersOfThisMachineAreServed(_ line: String, _ fields: String, _ status: String) async throws {
        let fixture = try await fixture(Self.demonstration)
        let client = try TestClient(port: fixture.port)
        let (head, body) = try await ask(client, line, fields)
        #expect(head.hasPrefix("HTTP/1.1 \(status) "), "\(head)")
        #expect(!head.contains("Access-Control-Allow-Origin"))
        if status == "200" {
            #expect(head.contains("\r\nContent-Security-Policy: default-src 'none'; script-src 'self';"))
            #expect(head.contains("\r\nX-Content-Type-Options: nosniff\r\n"))
        }
        if line == "POST /demo/token" {
            #expect(
                body.contains(#""token":"abc","key":"key","user":"demo","zone":"UTC","seconds":600"#)
                    == (status == "200"))
        }
    }
}
