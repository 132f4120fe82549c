import HTTP
import Store
import Sync

/// A row of the table of routes: all that the hub knows of a resource. The function in `sql/` knows the rest.
package struct ProductRoute: Sendable {
    /// Who may call, and whose data it is about.
    package enum Caller: Sendable {
        /// The user whom the path names (`{userId}`), by a bearer token.
        case userOfPath
        /// The user of a bearer token.
        case userOfToken
        /// The backend of the app that owns the database, by its signature as Pusher's HTTP API has it. It names the user, in
        /// the path (`{userId}`) or else in the body (`userId`).
        case app
    }

    /// What is done.
    package enum Kind: Sendable {
        /// A snapshot is read.
        case read(SnapshotFunction, Freshness)
        /// What may be long is sent as it is read, from one snapshot, on a connection to the database of its own.
        case export(ExportFunction)
        /// The body, an object or a list of them, is taken at once and written in a batch with others.
        case append(AppendFunction)
        /// An action is carried out, which the body is in this shape.
        case action(ActionShape)
        /// Actions are carried out, one behind the other: the elements of a member of the body, at most so many.
        case batch(StaticString, most: Int)

        /// Whether it may have been done though nobody knows.
        var isAction: Bool {
            switch self {
            case .action, .batch: true
            case .read, .export, .append: false
            }
        }
    }

    /// For how long a client may show an answer without asking again.
    package enum Freshness: Sendable, Equatable {
        /// Not at all; what it has is good when its `ETag` is (304).
        case asks
        /// So many seconds; then as `asks`.
        case seconds(Int)
        /// It is kept nowhere.
        case unkept
    }

    /// What an error is to clients.
    package struct Failure: Sendable {
        let status: Status
        let message: StaticString

        package init(_ status: Status, _ message: StaticString) {
            (self.status, self.message) = (status, message)
        }
    }

    let method: Method
    let path: PathPattern
    let caller: Caller
    let parameters: [RouteParameter]
    let kind: Kind
    /// By the SQLSTATE that a function raises, or the `code` of an action's rejection; others are as everywhere.
    let failures: [String: Failure]

    /// A resource that is read: `GET`, and `HEAD`.
    ///
    /// - Parameters:
    ///   - name: what metrics call it.
    ///   - function: its name in SQL, with the schema. It takes the user and then the parameters, and gives one row (epoch text,
    ///     top bigint, body text), whose body is NULL where there is no such thing.
    ///   - within: how long an answer may take, from the request on; that of all statements (`statementTimeout`) holds too.
    ///   - missing: the error where there is no such thing.
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

    /// What may be long: `GET`. Should it fail midway, the body ends without its last chunk.
    ///
    /// - Parameter function: takes the user and then the parameters, returns the content type, and opens the cursor `export` on
    ///   texts, the parts of the body (`ExportFunction`); NULL where there is no such thing.
    package static func export(
        _ path: String, _ function: String, _ parameters: [RouteParameter] = [], by caller: Caller = .userOfPath,
        missing: StaticString = "The user has no such thing.", failures: [String: Failure] = [:]
    ) -> ProductRoute {
        let question = ExportFunction(function, parameters.map(\.kind.sqlType), refusals: Set(failures.keys))
        return ProductRoute(
            .get, path, caller, parameters, .export(question),
            failures.merging([missingCode: Failure(.notFound, missing)]) { own, _ in own })
    }

    /// What is taken at once (202) and written soon, with others: `POST`. The hub's end loses what waits, and a connection's may have
    /// it written twice.
    ///
    /// - Parameter function: takes users and as many objects (`AppendFunction`).
    package static func append(
        _ path: String, _ function: String, by caller: Caller = .userOfPath
    ) -> ProductRoute {
        ProductRoute(.post, path, caller, [], .append(AppendFunction(function)), [:])
    }

    /// An action that a request is: `sync.action_type` names its function.
    ///
    /// - Parameters:
    ///   - shape: of a body that is no envelope. Of `ActionShape.whole` the parameters, too, become members of the payload.
    package static func action(
        _ method: Method, _ path: String, _ shape: ActionShape, _ parameters: [RouteParameter] = [],
        by caller: Caller = .userOfPath, failures: [String: Failure] = [:]
    ) -> ProductRoute {
        ProductRoute(method, path, caller, parameters, .action(shape), failures)
    }

    /// Actions in one request: `{member: [action, …]}`, answered with `{"results": […]}` in that order.
    package static func batch(
        _ path: String, _ member: StaticString, most: Int, by caller: Caller = .userOfPath
    ) -> ProductRoute {
        ProductRoute(.post, path, caller, [], .batch(member, most: most), [:])
    }

    /// In `failures`, of what is not there: no SQLSTATE is like it.
    static let missingCode = ""

    private init(
        _ method: Method, _ path: String, _ caller: Caller, _ parameters: [RouteParameter], _ kind: Kind,
        _ failures: [String: Failure]
    ) {
        (self.method, self.path, self.caller) = (method, PathPattern(path), caller)
        (self.parameters, self.kind, self.failures) = (parameters, kind, failures)
    }
}
