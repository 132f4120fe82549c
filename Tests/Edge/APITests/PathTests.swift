import Testing

@testable import API

/// Which call a path is, and whose.
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
            // What is in the path is decoded once, and a slash in it ends nothing.
            ("/apps/1/channels/presence-a%252Fb", "1", .channel, "presence-a%2Fb"),
            ("/apps/1/channels/a%2Fusers", "1", .channel, "a/users"), ("/apps/1/channels/", "1", .channel, ""),
            ("/apps/1/channels//users", "1", .users, ""), ("/apps/%31/events", "%31", .events, ""),
            ("/apps//events", "", .events, ""),
            // Calls that the hub does not have, of an app.
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

    @Test(arguments: [
        ("/users/u1/x", "u1", "/x"), ("/users/u1/", "u1", "/"), ("/users/a%2Fb/x/y", "a/b", "/x/y"),
        ("/users/%C3%BC/x%2F", "ü", "/x%2F"), ("/users/a%00b/x", "a\0b", "/x"), ("/users/u+1/x", "u+1", "/x"),
        ("/users/%2575/x", "%75", "/x"), ("/users/..//x", "..", "//x"),
    ])
    func usersPaths(_ path: String, _ user: String, _ rest: String) throws {
        let found = try #require(UserPath(path))
        #expect(found.user == user && found.rest == rest)
    }

    @Test(arguments: [
        "", "/users", "/users/", "/users/u1", "/users//x", "/user/u1/x", "/Users/u1/x", "/users/%FF/x", "/users/%/x",
        "/users/%C3/x", "/users/%zz/x", "users/u1/x",
    ])
    func pathsOfNoUser(_ path: String) { #expect(UserPath(path) == nil) }

    @Test(
        arguments: [
            ("/adherence/today", .today), ("/adherence/month", .month), ("/reminders", .reminders),
            ("/adherence/occurrence/a%2Fb", .occurrence("a/b")), ("/adherence/occurrence/%20", .occurrence(" ")),
            ("/adherence/occurrence/", nil), ("/adherence/occurrence", nil), ("/adherence/occurrence/a/b", nil),
            ("/adherence/occurrence/%FF", nil), ("/adherence/today/", nil), ("/reminders/r", nil), ("/", nil),
        ] as [(String, SnapshotRoutes.Target?)])
    func snapshots(_ rest: String, _ target: SnapshotRoutes.Target?) throws {
        #expect(SnapshotRoutes.Target(try #require(UserPath("/users/u\(rest)"))) == target)
    }
}
