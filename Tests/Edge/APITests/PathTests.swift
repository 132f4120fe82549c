import Testing

@testable import API

@Suite struct PathTests {
    typealias Route = PusherPath.Route

    @Test(
        arguments: [
            ("/apps/1/events", "1", Route.events, ""), ("/apps/1/batch_events", "1", .batchEvents, ""),
            ("/apps/1/channels", "1", .channels, ""), ("/apps/1/channels/a", "1", .channel, "a"),
            ("/apps/1/channels/a/users", "1", .users, "a"), ("/apps/1/channels/a/events", "1", .channelEvents, "a"),
            ("/apps/1/channels/a/stats", "1", .channelStats, "a"),
            ("/apps/1/users/u%201/terminate_connections", "1", .terminate, "u 1"),
            ("/users/u%2F1/terminate_connections", nil, .terminate, "u/1"),
            // A path segment is decoded once, and an encoded slash does not end it.
            ("/apps/1/channels/presence-a%252Fb", "1", .channel, "presence-a%2Fb"),
            ("/apps/1/channels/a%2Fusers", "1", .channel, "a/users"), ("/apps/1/channels/", "1", .channel, ""),
            ("/apps/1/channels//users", "1", .users, ""), ("/apps/%31/events", "%31", .events, ""),
            ("/apps//events", "", .events, ""),
            // Calls of an app that the hub does not have.
            ("/apps/", "", nil, ""), ("/apps/1", "1", nil, ""), ("/apps/1/", "1", nil, ""),
            ("/apps/1/Events", "1", nil, ""),
            ("/apps/1/events/", "1", nil, ""), ("/apps/1/channels/a/", "1", nil, ""),
            ("/apps/1/channelsx", "1", nil, ""),
            ("/apps/1/channels/a/users/", "1", nil, ""), ("/apps/1/channels/a/b/users", "1", nil, ""),
            ("/apps/1/channels/%zz", "1", nil, ""), ("/apps/1/channels/%FF/users", "1", nil, ""),
            ("/apps/1/users//terminate_connections", "1", nil, ""), ("/apps/1/users/u", "1", nil, ""),
        ] as [(String, String?, Route?, String)])
    func backendsPaths(_ path: String, _ app: String?, _ route: Route?, _ subject: String) throws {
        let found = try #require(PusherPath(path))
        #expect(found.app == app && found.route == route && found.subject == subject)
    }

    @Test(arguments: [
        "", "/", "/apps", "/Apps/1/events", "apps/1/events", "/users/u", "/users//terminate_connections",
        "/users/%FF/terminate_connections", "/users/%4/terminate_connections", "/users/u/terminate_connections/",
        "/users/a/b/terminate_connections", "/users/u/adherence/today",
    ])
    func pathsOfOthers(_ path: String) { #expect(PusherPath(path) == nil) }

    @Test(
        arguments: [
            ("/users/u1/x", ["u1"]), ("/users/a%2Fb/x", ["a/b"]), ("/users/%C3%BC/x", ["ü"]),
            ("/users/a%00b/x", ["a\0b"]), ("/users/u+1/x", ["u+1"]), ("/users/%2575/x", ["%75"]),
            ("/users/../x", [".."]), ("/users/{userId}/x", ["{userId}"]),
            ("", nil), ("/users", nil), ("/users/", nil), ("/users/u1", nil), ("/users/u1/", nil), ("/users//x", nil),
            ("/user/u1/x", nil), ("/Users/u1/x", nil), ("/users/%FF/x", nil), ("/users/%/x", nil),
            ("/users/%C3/x", nil),
            ("/users/%zz/x", nil), ("users/u1/x", nil), ("/users/u1/x/", nil), ("/users/u1/x/y", nil),
            ("/users/u1/%78", nil), ("/users/u1%2Fx", nil), ("//users/u1/x", nil),
        ] as [(String, [String]?)])
    func usersPaths(_ path: String, _ captures: [String]?) {
        #expect(PathPattern("/users/{userId}/x").captures(of: path) == captures)
    }

    @Test(
        arguments: [
            ("/a/1/b/2", ["1", "2"]), ("/a/1/b/%20", ["1", " "]), ("/a//b/2", nil), ("/a/1/b/", nil), ("/a/1/b", nil),
            ("/a/1/b/2/", nil), ("/a/1/c/2", nil),
        ] as [(String, [String]?)])
    func patternsWithTwo(_ path: String, _ captures: [String]?) {
        let pattern = PathPattern("/a/{x}/b/{y}")
        #expect(pattern.captures(of: path) == captures && pattern.names == ["x", "y"])
    }

    /// If two rows match a request, the first one answers; each path lists all its methods.
    @Test func rowsOfOnePath() {
        let table = RouteTable([
            .read("/r/preview", "one", "f", by: .userOfToken), .read("/r/{id}", "two", "f", by: .userOfToken),
            .action(.patch, "/r/{id}", .whole(type: "change"), by: .userOfToken),
            .action(.delete, "/r/{id}", .whole(type: "end"), by: .userOfToken),
        ])
        #expect(table.snapshots == ["one", "two"])
        #expect(table.matches("/r").isEmpty)
        let both = table.matches("/r/preview")
        #expect(both.count == 4 && both.first(for: .head)?.captures == [])
        let one = table.matches("/r/7")
        #expect(one.first(for: .get)?.capture("id") == "7" && one.first(for: .delete)?.capture("id") == "7")
        #expect(one.first(for: .put) == nil && one.first(for: .get)?.capture("x") == nil)
        #expect(one.methods == ["GET", "HEAD", "PATCH", "DELETE", "OPTIONS"])
    }
}
