import HTTP
import Store
import Sync

/// A row of the route table: all that the hub knows of a resource. The function in `sql/` knows the rest.
package struct ProductRoute: Sendable {
    /// Who may call, and whose data the call concerns.
    package enum Caller: Sendable {
        /// The user named in the path (`{userId}`), with a bearer token.
        case userOfPath
        /// The user of the bearer token.
        case userOfToken
        /// The backend of the app that owns the database, with a signature as in Pusher's HTTP API. It names the user in
        /// the path (`{userId}`) or in the body (`userId`).
        case app
    }

    /// What the route does.
    package enum Kind: Sendable {
        /// Reads a snapshot.
        case read(SnapshotFunction, Freshness)
        /// Streams a possibly long answer while reading it from one snapshot, on a database connection of its own.
        case export(ExportFunction)
        /// Accepts the body, an object or a list of objects, at once; it is written later in a batch with others.
        case append(AppendFunction)
        /// Carries out one action, which is the body in this shape.
        case action(ActionShape)
        /// Asks about the body, an object, which becomes the function's last argument, a text. Nothing is written.
        case question(SnapshotFunction)
        /// Carries out the changes of an offline queue, one after the other, and answers with this snapshot too. `most`
        /// bounds their number.
        case changes(SnapshotFunction, most: Int)
        /// Carries out the actions in a member of the body, one after the other. `most` bounds their number.
        case batch(StaticString, most: Int)

        /// Whether a call may have taken effect although its answer is unknown.
        var isAction: Bool {
            switch self {
            case .action, .batch, .changes: true
            case .read, .question, .export, .append: false
            }
        }
    }

    /// How long a client may show an answer without asking again.
    package enum Freshness: Sendable, Equatable {
        /// Not at all, and no cache stores it: a client that keeps it itself revalidates with the `ETag` (304).
        case asks
        /// This many seconds, in the client's own cache; after that it revalidates with the `ETag`.
        case seconds(Int)
        /// Not at all, and it has no `ETag`.
        case unkept
    }

    /// The HTTP form of an error.
    package struct Failure: Sendable {
        let status: Status
        let message: StaticString

        /// `message` is for the app's developer.
        package init(_ status: Status, _ message: StaticString) {
            (self.status, self.message) = (status, message)
        }
    }

    let method: Method
    let path: PathPattern
    let caller: Caller
    let parameters: [RouteParameter]
    let kind: Kind
    /// Members of an action's payload that the route itself says, as JSON texts.
    let said: [(name: StaticString, json: StaticString)]
    /// By SQLSTATE raised by a function, or by the `code` of an action's rejection. Other errors get the usual answer.
    let failures: [String: Failure]
    /// What `/openapi.json` says of the row beyond all this.
    private(set) var note = RouteNote()

    /// The row with what `/openapi.json` says of it.
    ///
    /// - Parameters:
    ///   - summary: what the route is for, in a few words.
    ///   - answer: the schema of the usual answer, a name of `OpenAPISchemas`.
    ///   - body: that of the body; nil: the one of the action's shape.
    package func described(_ summary: StaticString, _ answer: StaticString, body: StaticString? = nil) -> ProductRoute {
        var route = self
        route.note = RouteNote(summary: summary, answer: answer, body: body)
        return route
    }

    /// A route that reads a resource: `GET` and `HEAD`.
    ///
    /// - Parameters:
    ///   - name: the label in metrics.
    ///   - function: the SQL function's name with its schema. It takes the user and then the parameters, and returns one
    ///     row (epoch text, top bigint, body text). The body is NULL if the resource does not exist.
    ///   - within: the longest time for an answer, counted from the request. `statementTimeout` applies too.
    ///   - missing: the error text if the resource does not exist.
    package static func read(
        _ path: String, _ name: String, _ function: String, _ parameters: [RouteParameter] = [],
        by caller: Caller = .userOfPath, freshness: Freshness = .asks, within: Duration? = nil,
        missing: StaticString = "The user has no such thing.", failures: [String: Failure] = [:]
    ) -> ProductRoute {
        let question = SnapshotFunction(
            name, function, parameters.map(\.kind.sqlType), within: within, refusals: Set(failures.keys))
        return ProductRoute(
            .get, path, caller, parameters, .read(question, freshness),
            failures.merging([missingCode: Failure(.notFound, missing)]) { own, _ in own })
    }

    /// A route that exports a possibly long answer: `GET`. If it fails midway, the body ends without its last chunk.
    ///
    /// - Parameter function: takes the user and then the parameters, returns the content type, and opens the cursor
    ///   `export` over the texts that make up the body (`ExportFunction`). It returns NULL if the resource does not exist.
    package static func export(
        _ path: String, _ function: String, _ parameters: [RouteParameter] = [], by caller: Caller = .userOfPath,
        missing: StaticString = "The user has no such thing.", failures: [String: Failure] = [:]
    ) -> ProductRoute {
        let question = ExportFunction(function, parameters.map(\.kind.sqlType), refusals: Set(failures.keys))
        return ProductRoute(
            .get, path, caller, parameters, .export(question),
            failures.merging([missingCode: Failure(.notFound, missing)]) { own, _ in own })
    }

    /// A route whose body is accepted at once (202) and written soon, with others: `POST`. If the hub ends, waiting objects
    /// are lost; if the database connection is lost, they may be written twice.
    ///
    /// - Parameter function: takes an array of users and one of objects, of equal length (`AppendFunction`).
    package static func append(
        _ path: String, _ function: String, by caller: Caller = .userOfPath
    ) -> ProductRoute {
        ProductRoute(.post, path, caller, [], .append(AppendFunction(function)), [:])
    }

    /// A route that carries out one action: `sync.action_type` names its function.
    ///
    /// - Parameters:
    ///   - shape: of a body that is not an envelope. With `ActionShape.whole` the parameters become members of the payload
    ///     too.
    ///   - said: further members of such a payload, as JSON texts.
    package static func action(
        _ method: Method, _ path: String, _ shape: ActionShape, _ parameters: [RouteParameter] = [],
        saying said: [(name: StaticString, json: StaticString)] = [], by caller: Caller = .userOfPath,
        failures: [String: Failure] = [:]
    ) -> ProductRoute {
        ProductRoute(method, path, caller, parameters, .action(shape), failures, saying: said)
    }

    /// A route that answers a question with a body, an object: `POST`. Nothing is written.
    ///
    /// - Parameters:
    ///   - name: the label in metrics.
    ///   - function: as of `read`; its last argument is the body.
    package static func question(
        _ path: String, _ name: String, _ function: String, by caller: Caller = .userOfPath,
        failures: [String: Failure] = [:]
    ) -> ProductRoute {
        let question = SnapshotFunction(name, function, ["text"], refusals: Set(failures.keys))
        return ProductRoute(.post, path, caller, [], .question(question), failures)
    }

    /// A route that carries out the changes of an offline queue, and answers with a snapshot, a result for each, and the
    /// conflicts among these: `POST`.
    ///
    /// - Parameters:
    ///   - name: the snapshot's label in metrics.
    ///   - function: reads the snapshot, an object, when all is carried out. The client waits for both, so the snapshot has
    ///     less time than one alone. Where that is not enough, the client sends its queue again.
    package static func changes(
        _ path: String, _ name: String, _ function: String, most: Int, by caller: Caller = .userOfPath
    ) -> ProductRoute {
        let snapshot = SnapshotFunction(name, function, within: .seconds(4))
        return ProductRoute(.post, path, caller, [], .changes(snapshot, most: most), [:])
    }

    /// A route that carries out several actions: `{member: [action, …]}`, answered with `{"results": […]}` in that order.
    package static func batch(
        _ path: String, _ member: StaticString, most: Int, by caller: Caller = .userOfPath
    ) -> ProductRoute {
        ProductRoute(.post, path, caller, [], .batch(member, most: most), [:])
    }

    /// The key in `failures` for a resource that does not exist. It equals no SQLSTATE.
    static let missingCode = ""

    private init(
        _ method: Method, _ path: String, _ caller: Caller, _ parameters: [RouteParameter], _ kind: Kind,
        _ failures: [String: Failure], saying said: [(name: StaticString, json: StaticString)] = []
    ) {
        (self.method, self.path, self.caller) = (method, PathPattern(path), caller)
        (self.parameters, self.kind, self.failures, self.said) = (parameters, kind, failures, said)
    }
}

/// What `/openapi.json` says of a row, and nothing else does.
struct RouteNote: Sendable {
    var summary: StaticString = ""
    var answer: StaticString = "Anything"
    var body: StaticString?
}
