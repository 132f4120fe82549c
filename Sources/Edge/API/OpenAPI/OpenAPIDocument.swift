import Bytes
import Gateway
import HTTP
import JSON
import Sync

/// `/openapi.json`: the product's routes as an OpenAPI 3.1 document. Made once from the rows of the table, which say all of
/// it but the summaries (`RouteNote`) and the schemas of bodies (`OpenAPISchemas`).
struct OpenAPIDocument: Sendable {
    static let path = "/openapi.json"

    let body: [UInt8]
    private let tag: EntityTag

    init(_ rows: [ProductRoute]) {
        body = Array(Self.text(rows).utf8)
        tag = EntityTag(of: body)
    }

    /// Anybody may read it: it holds nothing of any user.
    func response(to request: HTTPRequest) -> HTTPResponse {
        let isKnown = request.ifNoneMatch.map { tag.isNamed(by: $0) } ?? false
        return (isKnown ? HTTPResponse(.notModified) : HTTPResponse(.ok, body: body))
            .with("ETag", tag.text)
            .with("Cache-Control", "no-cache")
            .with("Vary", "Origin")
    }

    private static func text(_ rows: [ProductRoute]) -> String {
        var paths: [(String, [ProductRoute])] = []
        for row in rows {
            if let index = paths.firstIndex(where: { $0.0 == row.path.text }) {
                paths[index].1.append(row)
            } else {
                paths.append((row.path.text, [row]))
            }
        }
        var schemes = [("bearerAuth", #"{"type":"http","scheme":"bearer","bearerFormat":"JWT"}"#)]
        if rows.contains(where: { $0.caller == .app }) {
            schemes.append(
                ("appSignature", #"{"type":"apiKey","in":"query","name":"auth_signature","description":"Pusher's."}"#))
        }
        return OpenAPIText.object([
            ("openapi", #""3.1.0""#),
            (
                "info",
                #"{"title":"Carillon","version":"1","description":"Snapshots, actions and exports of a user's doses and reminders."}"#
            ),
            (
                "paths",
                OpenAPIText.object(
                    paths.map { path, rows in
                        (path, OpenAPIText.object(rows.map { ("\($0.method.name)".lowercased(), operation($0)) }))
                    } + [(EventStreamRoutes.userPath.text, OpenAPIText.object([("get", events)]))])
            ),
            (
                "components",
                OpenAPIText.object([
                    ("securitySchemes", OpenAPIText.object(schemes)),
                    ("schemas", OpenAPIText.object(OpenAPISchemas.all.map { ("\($0.name)", "\($0.schema)") })),
                ])
            ),
        ])
    }

    // MARK: Operations

    private static func operation(_ row: ProductRoute) -> String {
        let literals = row.path.literals
        let name = (literals + row.path.names.filter { $0 != "userId" })
            .map { $0.split(separator: "-").map(\.capitalizedFirst).joined() }.joined()
        var members = [
            ("operationId", OpenAPIText.quoted("\(row.method.name)".lowercased() + name)),
            ("summary", OpenAPIText.quoted("\(row.note.summary)")),
            ("tags", OpenAPIText.array([OpenAPIText.quoted(literals.first { $0 != "users" } ?? "users")])),
            ("security", row.caller == .app ? #"[{"appSignature":[]}]"# : #"[{"bearerAuth":[]}]"#),
            ("parameters", OpenAPIText.array(parameters(row))),
        ]
        if let body = requestBody(row) { members.append(("requestBody", body)) }
        members.append(("responses", OpenAPIText.object(responses(row))))
        return OpenAPIText.object(members)
    }

    /// The user's event stream, which is no row of the table.
    private static var events: String {
        let text = RouteParameter.Kind.text(1...4_096).schema()
        let problem = ["application/json": OpenAPIText.reference("Problem")]
        let refusals: [(Status, String)] = [
            (.badRequest, "topics or Last-Event-ID is wrong."), (.unauthorized, "There is no good token."),
            (.forbidden, "It is another user's, or the origin may not call."),
            (.methodNotAllowed, "The path has another method."),
            (.serviceUnavailable, "There is no room: again after a while."),
        ]
        return OpenAPIText.object([
            ("operationId", OpenAPIText.quoted("getEvents")),
            ("summary", OpenAPIText.quoted("The user's events, as they happen, and those since Last-Event-ID")),
            ("tags", OpenAPIText.array([OpenAPIText.quoted("events")])),
            ("security", #"[{"bearerAuth":[]}]"#),
            (
                "parameters",
                OpenAPIText.array([
                    parameter("userId", "path", RouteParameter.Kind.text(1...128).schema(), isRequired: true),
                    parameter("topics", "query", text, isRequired: true),
                    parameter("Last-Event-ID", "header", text, isRequired: false),
                ])
            ),
            (
                "responses",
                OpenAPIText.object(
                    [("200", response("It does not end.", ["text/event-stream": #"{"type":"string"}"#]))]
                        + refusals.map { ("\($0.code)", response($1, problem)) } + [
                            ("default", response("Another error.", [:]))
                        ])
            ),
        ])
    }

    private static func parameters(_ row: ProductRoute) -> [String] {
        var parameters: [String] = []
        for name in row.path.names {
            let kind = row.parameters.first { "\($0.name)" == name }?.kind ?? .text(1...128)
            parameters.append(parameter(name, "path", kind.schema(), isRequired: true))
        }
        for one in row.parameters where !row.path.names.contains("\(one.name)") {
            let schema = one.kind.schema(default: one.absence.value)
            parameters.append(parameter("\(one.name)", "query", schema, isRequired: one.absence.isRefusal))
        }
        switch row.kind {
        case .read(_, .unkept), .question, .changes, .export, .append, .batch: break
        case .read: parameters.append(parameter("If-None-Match", "header", #"{"type":"string"}"#, isRequired: false))
        // Elsewhere the body has the key.
        case .action(let shape) where !shape.isWhole: break
        case .action:
            let schema = RouteParameter.Kind.text(1...ActionLimits.keyBytes).schema()
            parameters.append(parameter("Idempotency-Key", "header", schema, isRequired: false))
        }
        return parameters
    }

    private static func parameter(_ name: String, _ location: String, _ schema: String, isRequired: Bool) -> String {
        OpenAPIText.object([
            ("name", OpenAPIText.quoted(name)), ("in", OpenAPIText.quoted(location)),
            ("required", isRequired ? "true" : "false"), ("schema", schema),
        ])
    }

    private static func requestBody(_ row: ProductRoute) -> String? {
        let schema: String
        switch row.kind {
        case .read, .export: return nil
        case .append:
            let one = OpenAPIText.reference(row.note.body ?? "Anything")
            schema =
                #"{"anyOf":[\#(one),{"type":"array","items":\#(one),"minItems":1,"maxItems":\#(APILimits.appendedAtOnce)}]}"#
        case .question, .changes: schema = OpenAPIText.reference(row.note.body ?? "Anything")
        case .action(let shape): schema = OpenAPIText.reference(row.note.body ?? shape.schema)
        case .batch(let member, let most):
            schema = """
                {"type":"object","required":["\(member)"],"properties":{"\(member)":{"type":"array",\
                "minItems":1,"maxItems":\(most),"items":\(OpenAPIText.reference("PlainAction"))}}}
                """
        }
        return OpenAPIText.object([
            ("required", row.kind.needsBody ? "true" : "false"),
            ("content", #"{"application/json":{"schema":\#(schema)}}"#),
        ])
    }

    // MARK: Responses

    private static func responses(_ row: ProductRoute) -> [(String, String)] {
        let answer = OpenAPIText.reference(row.note.answer)
        var found: [(String, String)]
        switch row.kind {
        case .read(_, let freshness):
            found = [("200", response("The snapshot.", ["application/json": answer], position))]
            if freshness != .unkept { found.append(("304", response("It is as the ETag says.", [:], position))) }
        case .export:
            let text = #"{"type":"string"}"#
            found = [("200", response("The export.", ["application/json": answer, "text/csv": text]))]
        case .question: found = [("200", response("The answer.", ["application/json": answer]))]
        case .changes:
            found = [("200", response("One result for each, and what is there then.", ["application/json": answer]))]
        case .append: found = [("202", response("It will be written.", ["application/json": #"{"type":"object"}"#]))]
        case .action(let shape):
            let done = [answer] + (shape.isWhole ? [] : [OpenAPIText.reference("ActionResult")])
            let failed = [OpenAPIText.reference("ActionProblem"), OpenAPIText.reference("ActionResult")]
            let (good, bad) = (anyOf(done), anyOf(failed))
            found = [
                ("200", response("It is applied, or was before.", ["application/json": good])),
                ("409", response("A conflict that a person must decide.", ["application/json": bad])),
                ("422", response("It cannot be done; it is not to be sent again.", ["application/json": bad])),
                ("429", response("Too many; it is to be sent again.", ["application/json": bad])),
                ("503", response("It is to be sent again.", ["application/json": bad])),
            ]
        case .batch: found = [("200", response("One result for each.", ["application/json": answer]))]
        }
        // What a row says of its failures, then what every route may answer.
        let own = row.failures.values.map { ($0.status, "\($0.message)") }.sorted { $0.1 < $1.1 }
        let usual: [(Status, String)] = [
            (.badRequest, "A parameter or the body is wrong."), (.unauthorized, "There is no good token."),
            (.forbidden, "It is another user's, or the origin may not call."), (.notFound, "There is nothing here."),
            (.methodNotAllowed, "The path has other methods."), (.contentTooLarge, "The body is too large."),
            (.unsupportedMediaType, "The body is not JSON."),
            (.serviceUnavailable, "The database is away: again after Retry-After."),
        ]
        for (status, words) in own + usual where !found.contains(where: { $0.0 == "\(status.code)" }) {
            found.append(("\(status.code)", response(words, ["application/json": OpenAPIText.reference("Problem")])))
        }
        found.append(("default", response("Another error.", [:])))
        return found
    }

    private static let position =
        #"{"ETag":{"schema":{"type":"string"}},"X-Sync-Position":{"schema":{"type":"string"}}}"#

    private static func anyOf(_ schemas: [String]) -> String {
        schemas.count == 1 ? schemas[0] : #"{"anyOf":\#(OpenAPIText.array(schemas))}"#
    }

    private static func response(_ words: String, _ content: [String: String], _ headers: String? = nil) -> String {
        var members = [("description", OpenAPIText.quoted(words))]
        if let headers { members.append(("headers", headers)) }
        let bodies = content.sorted { $0.key < $1.key }.map { ($0.key, #"{"schema":\#($0.value)}"#) }
        if !bodies.isEmpty { members.append(("content", OpenAPIText.object(bodies))) }
        return OpenAPIText.object(members)
    }
}

/// JSON texts of JSON texts.
enum OpenAPIText {
    static func quoted(_ text: String) -> String {
        var writer = ByteWriter(capacity: text.utf8.count + 2)
        writer.append(jsonString: text)
        return String(decoding: writer.array, as: UTF8.self)
    }

    static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { "\(quoted($0.0)):\($0.1)" }.joined(separator: ",") + "}"
    }

    static func array(_ elements: [String]) -> String { "[" + elements.joined(separator: ",") + "]" }

    static func reference(_ name: StaticString) -> String { ##"{"$ref":"#/components/schemas/\##(name)"}"## }
}

extension Substring {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}

extension ProductRoute.Kind {
    fileprivate var needsBody: Bool {
        if case .action(let shape) = self { return !shape.isWhole }
        return true
    }
}

extension ActionShape {
    /// The schema of a body in this shape.
    fileprivate var schema: StaticString {
        switch self {
        case .envelope: "ActionEnvelope"
        case .plain: "PlainAction"
        case .plainBulk: "PlainBulk"
        case .whole: "ActionObject"
        }
    }
}

extension RouteParameter.Kind {
    private static let lengthMax = 4_096

    /// The JSON schema of the values allowed.
    fileprivate func schema(default absence: String? = nil) -> String {
        var members: [(String, String)]
        switch self {
        case .day: members = [("type", #""string""#), ("format", #""date""#)]
        case .month:
            let year = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
            members = [("type", #""string""#), ("pattern", #""^\#(year)-(0[1-9]|1[0-2])$""#)]
        case .integer(let range):
            members = [
                ("type", #""integer""#), ("minimum", "\(range.lowerBound)"), ("maximum", "\(range.upperBound)"),
            ]
        case .text(let range):
            members = [("type", #""string""#), ("minLength", "\(range.lowerBound)")]
            // A longer one is refused with its request target (414).
            if range.upperBound <= Self.lengthMax { members.append(("maxLength", "\(range.upperBound)")) }
        case .choice(let values):
            members = [("type", #""string""#), ("enum", OpenAPIText.array(values.map(OpenAPIText.quoted)))]
        }
        if let absence {
            if case .integer = self {
                members.append(("default", absence))
            } else {
                members.append(("default", OpenAPIText.quoted(absence)))
            }
        }
        return OpenAPIText.object(members)
    }
}

extension RouteParameter.Absence {
    fileprivate var value: String? { if case .value(let value) = self { value } else { nil } }
    fileprivate var isRefusal: Bool { if case .refused = self { true } else { false } }
}
