import HTTP
import Store
import Sync

/// The product's routes: a new resource is a new row, and a function in `sql/`.
package struct RouteTable: Sendable {
    /// In table order: if two rows match a request, the first one answers it.
    private let routes: [ProductRoute]

    /// The first route that matches a request answers it.
    package init(_ routes: [ProductRoute]) { self.routes = routes }

    /// The last segment of a path that names one entity.
    private static let entity = RouteParameter("id", .text(1...65_536))

    /// The routes of this hub.
    package static let product = RouteTable([
        // Seed 000 §4.
        .read("/users/{userId}/adherence/today", "day", "sync.adherence_day", [RouteParameter("date", .day)]),
        .read(
            "/users/{userId}/adherence/month", "month", "sync.adherence_month",
            [RouteParameter("month", .month, absence: .refused)]),
        .read(
            "/users/{userId}/adherence/occurrence/{id}", "occurrence", "sync.adherence_occurrence",
            [RouteParameter("id", .text(1...65_536))], missing: "The user has no such dose."),
        .action(.post, "/users/{userId}/adherence/actions", .plain),
        .action(.post, "/users/{userId}/adherence/bulk", .plainBulk),
        // Seed 000 §6 and §12: the same without the user's name.
        .action(.post, "/adherence/actions", .plain, by: .userOfToken),
        .action(.post, "/adherence/bulk", .plainBulk, by: .userOfToken),
        // Seed 001 §4.
        .read("/users/{userId}/reminders", "reminders", "sync.reminders"),
        // Seed 002: the medication list. Identifiers are the clients' own.
        .read("/users/{userId}/medications", "medications", "sync.medications"),
        .action(.post, "/users/{userId}/medications", .whole(type: "createMedication")),
        .read(
            "/users/{userId}/medications/{id}", "medication", "sync.medication", [entity],
            missing: "The user has no such medication."),
        .action(.patch, "/users/{userId}/medications/{id}", .whole(type: "updateMedication"), [entity]),
        .action(.delete, "/users/{userId}/medications/{id}", .whole(type: "archiveMedication"), [entity]),
        .read("/users/{userId}/schedules", "schedules", "sync.schedules"),
        .action(.post, "/users/{userId}/schedules", .whole(type: "createSchedule")),
        .read(
            "/users/{userId}/schedules/{id}", "schedule", "sync.schedule", [entity],
            missing: "The user has no such schedule."),
        .action(.patch, "/users/{userId}/schedules/{id}", .whole(type: "updateSchedule"), [entity]),
        .action(.delete, "/users/{userId}/schedules/{id}", .whole(type: "deleteSchedule"), [entity]),
        .read("/users/{userId}/stacks", "stacks", "sync.stacks"),
        .action(.post, "/users/{userId}/stacks", .whole(type: "createStack")),
        .read(
            "/users/{userId}/stacks/{id}", "stack", "sync.stack", [entity], missing: "The user has no such stack."),
        .action(.patch, "/users/{userId}/stacks/{id}", .whole(type: "updateStack"), [entity]),
        .action(.delete, "/users/{userId}/stacks/{id}", .whole(type: "deleteStack"), [entity]),
        .read("/users/{userId}/settings", "settings", "sync.settings"),
        .action(.patch, "/users/{userId}/settings", .whole(type: "updateSettings")),
        .action(.post, "/users/{userId}/adherence/log", .whole(type: "logDose")),
    ])

    /// The metrics labels of the snapshots.
    package var snapshots: [String] {
        routes.compactMap { if case .read(let function, _) = $0.kind { function.name } else { nil } }
    }

    /// The database connections that the routes need.
    package var connections: RouteConnections {
        var connections = RouteConnections()
        for route in routes {
            if case .export = route.kind { connections.exports = 2 }
            if case .append = route.kind { connections.appends = 1 }
        }
        return connections
    }

    /// A row that matches a path, with the captured segments.
    struct Match: Sendable {
        let route: ProductRoute
        let captures: [String]

        func capture(_ name: String) -> String? {
            route.path.names.firstIndex(of: name).map { captures[$0] }
        }
    }

    /// All rows that match the path; empty if none does.
    func matches(_ path: String) -> [Match] {
        routes.compactMap { route in
            route.path.captures(of: path).map { Match(route: route, captures: $0) }
        }
    }
}

extension [RouteTable.Match] {
    /// The row for a method. HEAD uses the row of GET.
    func first(for method: Method) -> RouteTable.Match? {
        first { $0.route.method == (method == .head ? .get : method) }
    }

    /// The methods that the field `Allow` lists.
    var methods: [String] {
        flatMap { $0.route.method == .get ? ["GET", "HEAD"] : ["\($0.route.method.name)"] } + ["OPTIONS"]
    }
}
