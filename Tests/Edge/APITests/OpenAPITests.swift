import Foundation
import TestHub
import TestSupport
import Testing

@testable import API

/// The description of the product's routes: all rows, told once, and no name that leads nowhere.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct OpenAPITests {
    private static let text = String(decoding: OpenAPIDocument(RouteTable.product.routes).body, as: UTF8.self)

    @Test func everyRowIsDescribed() throws {
        let document = try #require(
            JSONSerialization.jsonObject(with: Data(Self.text.utf8)) as? [String: Any])
        let paths = try #require(document["paths"] as? [String: [String: [String: Any]]])
        for row in RouteTable.product.routes {
            let operation = try #require(paths[row.path.text]?["\(row.method.name)".lowercased()], "\(row.path.text)")
            #expect(operation["summary"] as? String == "\(row.note.summary)" && !"\(row.note.summary)".isEmpty)
            let named = (operation["parameters"] as? [[String: Any]] ?? []).compactMap { $0["name"] as? String }
            #expect(Set(named).isSuperset(of: row.path.names + row.parameters.map { "\($0.name)" }), "\(row.path.text)")
        }
        #expect(paths.values.map(\.count).reduce(0, +) == RouteTable.product.routes.count + 1, "and the event stream")
    }

    @Test func everySchemaNamedIsThere() {
        let names = Set(OpenAPISchemas.all.map { "\($0.name)" })
        let named = Self.text.matches(of: /"\$ref":"#\/components\/schemas\/([A-Za-z]+)"/).map { String($0.1) }
        #expect(named.count > 50 && Set(named).isSubset(of: names))
        #expect(names.count == OpenAPISchemas.all.count)
    }

    @Test func boundsAreThoseOfTheRows() {
        let table = [
            ProductRoute.read(
                "/x/{id}", "x", "app.x",
                [
                    RouteParameter("id", .text(1...9)), RouteParameter("n", .integer(-1...7), absence: .value("3")),
                    RouteParameter("kind", .choice(["a", "b"]), absence: .refused), RouteParameter("on", .day),
                ], by: .app
            ).described("An x", "Anything")
        ]
        let text = String(decoding: OpenAPIDocument(table).body, as: UTF8.self)
        for part in [
            #"{"name":"id","in":"path","required":true,"schema":{"type":"string","minLength":1,"maxLength":9}}"#,
            #"{"name":"n","in":"query","required":false,"schema":{"type":"integer","minimum":-1,"maximum":7,"default":3}}"#,
            #"{"name":"kind","in":"query","required":true,"schema":{"type":"string","enum":["a","b"]}}"#,
            #"{"name":"on","in":"query","required":false,"schema":{"type":"string","format":"date"}}"#,
            #""security":[{"appSignature":[]}]"#,
        ] {
            #expect(text.contains(part), "\(part)")
        }
    }

    @Test func hubsWithoutADatabaseHaveNone() async throws {
        for (hasUsers, status) in [(true, "200"), (false, "404")] {
            let fixture = try await GatewayFixture(ownsDatabase: hasUsers)
            // Its end closes the connections.
            defer { withExtendedLifetime(fixture) {} }
            let client = try TestClient(port: fixture.port)
            try await client.sendRaw("GET /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n")
            let (head, body) = try await client.response()
            #expect(head.hasPrefix("HTTP/1.1 \(status) "))
            if hasUsers {
                #expect(body == Self.text && head.contains("\r\nETag: \""))
                try await client.sendRaw("GET /openapi.json HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n")
                #expect(try await client.response().head.hasPrefix("HTTP/1.1 304 "))
            }
        }
    }
}
