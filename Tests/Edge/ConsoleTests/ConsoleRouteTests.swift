import API
import Foundation
import Gateway
import HTTP
import HubEngine
import Pusher
import Reactor
import Sync
import Testing

@testable import Console

/// What the console is asked, who may ask, and what it is made of.
@Suite struct ConsoleRouteTests {
    private static let credential = "a credential of thirty-two bytes."

    private static func request(
        _ line: String, _ fields: String = "", from address: String = "127.0.0.1", body: String = ""
    ) throws -> HTTPRequest {
        var bytes = Array(
            "\(line) HTTP/1.1\r\nHost: 127.0.0.1:9601\r\nContent-Length: \(body.utf8.count)\r\n\(fields)\r\n\(body)"
                .utf8)
        let peer = try #require(Array(address.utf8).withUnsafeBytes { PeerAddress($0) })
        return try bytes.withUnsafeMutableBytes { bytes in
            var parser = RequestParser()
            return HTTPRequest(try #require(try parser.parse(bytes)), from: peer)
        }
    }

    // MARK: Who

    private static let own = "Origin: http://127.0.0.1:9601\r\n"
    private static let bearer = "Authorization: Bearer \(credential)\r\n"

    @Test(arguments: [
        ("GET /console/api/hub", "", 401), ("GET /console/api/hub", bearer, nil),
        ("POST /console/api/publish", bearer, nil), ("POST /console/api/terminate", "", 401),
        ("GET /console/api/hub", "Authorization: Bearer \(credential)x\r\n", 401),
        ("GET /console/api/hub", "Authorization: Bearer \(credential.dropLast())\r\n", 401),
        ("GET /console/api/hub", own + bearer, nil), ("GET /console/api/hub", own, 401),
        ("GET /console/api/hub", "Origin: http://evil.example\r\n" + bearer, 403),
        ("POST /console/api/publish", "Origin: null\r\n" + bearer, 403),
    ]) func aCredentialOpensIt(_ line: String, _ fields: String, _ status: Int?) throws {
        let access = ConsoleAccess(credential: Self.credential)
        let request = try Self.request(line, fields, from: "10.1.2.3")
        #expect(access.refusal(of: request)?.status.code == status)
        #expect(access.servesPage(to: request))
    }

    @Test(arguments: [
        ("GET /console/api/hub", "", "127.0.0.1", nil), ("GET /console/api/hub", "", "10.1.2.3", 403),
        ("POST /console/api/terminate", "", "127.0.0.1", 403), ("POST /console/api/publish", "", "127.0.0.1", 403),
        ("POST /console/api/publish", own, "127.0.0.1", nil),
        ("POST /console/api/publish", own, "10.1.2.3", 403),
        ("POST /console/api/publish", "Origin: http://evil.example\r\n", "127.0.0.1", 403),
    ]) func withoutOneItIsForThisMachine(_ line: String, _ fields: String, _ address: String, _ status: Int?) throws {
        let access = ConsoleAccess(credential: nil)
        let request = try Self.request(line, fields, from: address)
        #expect(access.refusal(of: request)?.status.code == status)
        #expect(access.servesPage(to: request) == (address == "127.0.0.1"))
    }

    // MARK: What

    @Test(arguments: [
        ("GET /console/api/nothing", 404), ("POST /console/api/hub", 405),
        ("GET /console/api/payload?channel=user.1.x&offset=1", 405),
        ("GET /console/api/channels", 400), ("GET /console/api/log?channel=news", 400), ("GET /console/api/log", 400),
        ("GET /console/api/way?channel=user.1.x", 400), ("GET /console/api/way?channel=user.1.x&offset=-1", 400),
        ("GET /console/api/way?channel=user.1.x&offset=99999999999999999999", 400),
        ("GET /console/api/events?bytes=x", 400),
        ("POST /console/api/publish", 400), ("GET /console/api/terminate?app=1&user=u", 405),
        ("POST /console/api/terminate?app=1", 400), ("POST /console/api/terminate?user=u", 400),
        ("GET /console/api/members?app=1&channel=news", 400), ("GET /console/api/members?channel=presence-a", 400),
    ]) func whatItCannotDoIsSaid(_ line: String, _ status: Int) throws {
        let request = try Self.request(line)
        #expect { try ConsoleRoute(request) } throws: { ($0 as? ConsoleProblem)?.response.status.code == status }
    }

    @Test func parametersAreRead() throws {
        guard
            case .way(let stream, let number) = try ConsoleRoute(
                Self.request("GET /console/api/way?channel=private-user.a=3Db.x_y&offset=7&epoch=a.1"))
        else { throw ConsoleProblem(.badRequest, "another route") }
        #expect(number.offset == 7 && number.epoch == Epoch("a.1"))
        #expect(stream.user == "a=b" && stream.topic == "x_y" && stream.channel == "user.a=3Db.x_y")
        guard
            case .events(let filter) = try ConsoleRoute(
                Self.request("GET /console/api/events?name=up+date&channel=user.&bytes=10"))
        else { throw ConsoleProblem(.badRequest, "another route") }
        guard
            case .terminate("a b", "1") = try ConsoleRoute(
                Self.request("POST /console/api/terminate?app=1&user=a%20b"))
        else { throw ConsoleProblem(.badRequest, "another route") }
        #expect(filter.name == "up date" && filter.channel == "user." && filter.bytesMin == 10)
    }

    private static func app(ownsDatabase: Bool) -> App {
        App(id: "1", credentials: AppCredentials(key: "key", secret: "secret"), index: 0, ownsDatabase: ownsDatabase)
    }

    @Test(arguments: [true, false], ["user.1.adherence", "private-user.1.adherence", "user."])
    func neverToUsers(_ ownsDatabase: Bool, _ channel: String) {
        let app = Self.app(ownsDatabase: ownsDatabase)
        let body = #"{"name":"x","channels":["news","\#(channel)"],"data":"{}"}"#
        #expect { try ConsoleRoute.publications(Array(body.utf8), of: app) } throws: {
            ($0 as? ConsoleProblem)?.response.status.code == 403
        }
    }

    @Test func aPublishIsPushers() throws {
        let app = Self.app(ownsDatabase: true)
        let body = #"{"name":"x","channels":["news","users.1"],"data":"{}"}"#
        #expect(try ConsoleRoute.publications(Array(body.utf8), of: app).map(\.channel.string) == ["news", "users.1"])
        for body in ["", "{}", #"{"name":"x","channel":"news"}"#, #"{"name":"x","channel":"no good","data":"{}"}"#] {
            #expect(throws: ConsoleProblem.self) { try ConsoleRoute.publications(Array(body.utf8), of: app) }
        }
    }

    // MARK: The page

    /// The console has two files of the demonstration.
    @Test func everyFileIsServed() throws {
        let clients = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Sources/Clients").standardized
        let names = try FileManager.default.contentsOfDirectory(atPath: clients.appendingPathComponent("Console").path)
        var files = names.filter { $0 != "README.md" }.map { "Console/\($0)" }
        files += ["Demonstration/dom.js", "Demonstration/icon.svg"]
        let paths = files.map { "/console/\($0.split(separator: "/")[1])" }
        #expect(files.count > 10 && Set(WebFile.console.keys) == Set(paths))
        for (file, path) in zip(files, paths) where !path.hasSuffix(".html") {
            let bytes = try [UInt8](Data(contentsOf: clients.appendingPathComponent(file)))
            #expect(WebFile.console[path]?.body == bytes, "\(file)")
        }
        // Its style is in it: the first paint waits for no second answer.
        let page = String(decoding: try #require(WebFile.console["/console/index.html"]).body, as: UTF8.self)
        let sheet = String(decoding: try #require(WebFile.console["/console/console.css"]).body, as: UTF8.self)
        #expect(page.contains("<style>\(sheet)</style>") && !page.contains("stylesheet"))
    }
}
