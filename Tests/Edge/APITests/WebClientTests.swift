import Foundation
import TestHub
import TestSupport
import Testing

@testable import API

/// The modules of the web client, as the hub serves them.
@Suite(.timeLimit(.minutes(15))) struct WebClientTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Sources/Clients/Web").standardized

    @Test func everyModuleIsServed() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
            .filter { $0.hasSuffix(".js") || $0.hasSuffix(".d.ts") }
        #expect(names.count > 10)
        #expect(Set(WebFile.client.keys) == Set(names.map { "/client/\($0)" }))
        for name in names {
            let bytes = try [UInt8](Data(contentsOf: Self.folder.appendingPathComponent(name)))
            #expect(WebFile.client["/client/\(name)"]?.body == bytes, "\(name)")
        }
    }

    @Test func aPageOfAnotherOriginMayImportIt() async throws {
        let fixture = try await GatewayFixture()
        // Its end closes the connections.
        defer { withExtendedLifetime(fixture) {} }
        let client = try TestClient(port: fixture.port)
        try await client.sendRaw("GET /client/carillon.js HTTP/1.1\r\nHost: h\r\nOrigin: https://app.example\r\n\r\n")
        let (head, body) = try await client.response()
        #expect(head.hasPrefix("HTTP/1.1 200 ") && head.contains("\r\nContent-Type: text/javascript"))
        #expect(head.contains("\r\nAccess-Control-Allow-Origin: ") && head.contains("\r\nETag: \""))
        #expect(body.contains("export { Carillon }"))
        try await client.sendRaw("GET /client/carillon.js HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n")
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 304 "))
        try await client.sendRaw("GET /client/nothing.js HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try await client.response().head.hasPrefix("HTTP/1.1 404 "))
    }
}
