import HTTP
import Store
import Sync

/// The product's routes: a new resource is a new row, and a function in `sql/`.
package struct RouteTable: Sendable {
    /// In table order: if two rows match a request, the first one answers it.
    let routes: [ProductRoute]

    /// The first route that matches a request answers it.
    package init(_ routes: [ProductRoute]) { self.routes = routes }

    /// The last segment of a path that names one entity.
    private static let entity = RouteParameter("id", .text(1...65_536))
    /// The first and the last day of a range.
    private static let range = [RouteParameter("start", .day), RouteParameter("end", .day)]
    private static let reversed = ProductRoute.Failure(.badRequest, "Let end be start or later.")
    private static let statuses = ["scheduled", "taken", "missed", "made_up", "skipped", "cancelled"]

    /// The routes of this hub.
    package static let product = RouteTable(doses + reminders + devices)

    private static let doses: [ProductRoute] = [
        // Seed 000 §4.
        .read("/users/{userId}/adherence/today", "day", "sync.adherence_day", [RouteParameter("date", .day)])
            .described("The doses of a day, by default of today", "Day"),
        .read(
            "/users/{userId}/adherence/month", "month", "sync.adherence_month",
            [RouteParameter("month", .month, absence: .refused)]
        ).described("The summary of each day of a month", "Month"),
        .read(
            "/users/{userId}/adherence/occurrence/{id}", "occurrence", "sync.adherence_occurrence",
            [RouteParameter("id", .text(1...65_536)), RouteParameter("cursor", .text(1...4_096))],
            missing: "The user has no such dose.",
            failures: [
                "UQ002": ProductRoute.Failure(.badRequest, "cursor must be the notesNext of the page before.")
            ]
        ).described("A dose with its newest notes, or those before a cursor", "DoseWithNotes"),
        .read(
            "/users/{userId}/adherence/stats", "stats", "sync.adherence_stats", range,
            failures: [
                "UQ001": ProductRoute.Failure(.badRequest, "Let end be start or later, and 365 days later at most.")
            ]
        ).described("Streaks, percentages and histograms of a range of days, by default of 30", "RangeStats"),
        .read(
            "/users/{userId}/adherence/history", "history", "sync.adherence_history",
            range + [
                RouteParameter("productId", .text(1...200)), RouteParameter("status", .choice(statuses)),
                RouteParameter("cursor", .text(1...4_096)),
                RouteParameter("limit", .integer(1...200), absence: .value("50")),
            ],
            failures: [
                "UQ001": reversed,
                "UQ002": ProductRoute.Failure(.badRequest, "cursor must be the next of the page before."),
            ]
        ).described("A page of doses, the newest first", "HistoryPage"),
        .export(
            "/users/{userId}/adherence/export", "sync.adherence_export",
            [RouteParameter("format", .choice(["csv", "json"]), absence: .value("csv"))] + range,
            failures: ["UQ001": reversed]
        ).described("All doses of a range of days, the oldest first", "Doses"),
        .action(.post, "/users/{userId}/adherence/actions", .plain)
            .described("Carries out an action", "PlainAnswer"),
        .action(.post, "/users/{userId}/adherence/bulk", .plainBulk)
            .described("Marks several doses as taken", "PlainAnswer"),
        // Seed 000 §6 and §12: the same without the user's name.
        .action(.post, "/adherence/actions", .plain, by: .userOfToken)
            .described("Carries out an action of the token's user", "PlainAnswer"),
        .action(.post, "/adherence/bulk", .plainBulk, by: .userOfToken)
            .described("Marks several doses of the token's user as taken", "PlainAnswer"),
        .append("/feedback/adherence-event", "sync.append_feedback", by: .userOfToken)
            .described("Keeps events of the app's screens", "Anything", body: "Feedback"),
        // Seed 002: the medication list. Identifiers are the clients' own.
        .read("/users/{userId}/medications", "medications", "sync.medications")
            .described("The list of medications, with stacks and settings", "Medications"),
        .action(.post, "/users/{userId}/medications", .whole(type: "createMedication"))
            .described("Adds a medication with its schedules", "PlainAnswer", body: "NewMedication"),
        .read(
            "/users/{userId}/medications/{id}", "medication", "sync.medication", [entity],
            missing: "The user has no such medication."
        ).described("A medication, also an archived one", "Medication"),
        .action(.patch, "/users/{userId}/medications/{id}", .whole(type: "updateMedication"), [entity])
            .described("Changes a medication", "PlainAnswer", body: "MedicationChange"),
        .action(.delete, "/users/{userId}/medications/{id}", .whole(type: "archiveMedication"), [entity])
            .described("Archives a medication", "PlainAnswer"),
        .read("/users/{userId}/schedules", "schedules", "sync.schedules")
            .described("All schedules", "Schedules"),
        .action(.post, "/users/{userId}/schedules", .whole(type: "createSchedule"))
            .described("Adds a schedule", "PlainAnswer", body: "NewSchedule"),
        .read(
            "/users/{userId}/schedules/{id}", "schedule", "sync.schedule", [entity],
            missing: "The user has no such schedule."
        ).described("A schedule", "Schedule"),
        .action(.patch, "/users/{userId}/schedules/{id}", .whole(type: "updateSchedule"), [entity])
            .described("Changes or pauses a schedule", "PlainAnswer", body: "ScheduleChange"),
        .action(.delete, "/users/{userId}/schedules/{id}", .whole(type: "deleteSchedule"), [entity])
            .described("Deletes a schedule", "PlainAnswer"),
        .read("/users/{userId}/stacks", "stacks", "sync.stacks")
            .described("All stacks", "Stacks"),
        .action(.post, "/users/{userId}/stacks", .whole(type: "createStack"))
            .described("Adds a stack", "PlainAnswer", body: "NewStack"),
        .read("/users/{userId}/stacks/{id}", "stack", "sync.stack", [entity], missing: "The user has no such stack.")
            .described("A stack", "Stack"),
        .action(.patch, "/users/{userId}/stacks/{id}", .whole(type: "updateStack"), [entity])
            .described("Changes a stack", "PlainAnswer", body: "StackChange"),
        .action(.delete, "/users/{userId}/stacks/{id}", .whole(type: "deleteStack"), [entity])
            .described("Deletes a stack with its schedules", "PlainAnswer"),
        .read("/users/{userId}/settings", "settings", "sync.settings")
            .described("The user's settings", "Settings"),
        .action(.patch, "/users/{userId}/settings", .whole(type: "updateSettings"))
            .described("Changes the user's zone, or the times of presets", "PlainAnswer", body: "SettingsChange"),
        .action(.post, "/users/{userId}/adherence/log", .whole(type: "logDose"))
            .described("Records an intake that no schedule asked for", "PlainAnswer", body: "Intake"),
    ]

    /// The metrics labels of the snapshots.
    package var snapshots: [String] {
        routes.compactMap { route in
            switch route.kind {
            case .read(let function, _), .question(let function): function.name
            // The snapshot has a route of its own.
            case .changes, .export, .append, .action, .batch: nil
            }
        }
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
