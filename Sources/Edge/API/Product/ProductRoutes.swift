import Bytes
import Clock
import Gateway
import HTTP
import HubEngine
import Identity
import JSON
import Metrics
import Pusher
import Shared
import Store
import Sync

/// Answers requests for the rows of the table, all in one way: authenticate, read the arguments, call the SQL function.
struct ProductRoutes: Sendable {
    typealias Answer = @Sendable (HTTPResponse) -> Void

    /// The app that owns the database.
    let appID: String
    let bearer: BearerUser

    /// Returns an answer at once if the request itself is wrong; otherwise `answer` gets it.
    ///
    /// - Parameter calls: provides the replay guard for signed calls, and the metrics.
    func respond(
        to request: HTTPRequest, _ match: RouteTable.Match, _ exchange: HTTPExchange, _ channels: any ChannelDirectory,
        _ calls: PusherRoutes, _ answer: @escaping Answer
    ) -> HTTPResponse? {
        if match.route.caller == .app { return signed(request, match, exchange, channels, calls, answer) }
        guard let token = request.bearerToken else { return BearerUser.missing }
        if let problem = Self.otherType(request) { return problem }
        bearer.verify(token, refuse: answer) { user in
            if match.route.caller == .userOfPath, match.capture(Self.userName)?.hasSameBytes(as: user) != true {
                return answer(.problem(.forbidden, "The path names another user than the token."))
            }
            perform(request, match, user, exchange, calls.metrics, answer)
        }
        return nil
    }

    /// A call of the backend for the user that it names. A call that had no effect may be sent again.
    private func signed(
        _ request: HTTPRequest, _ match: RouteTable.Match, _ exchange: HTTPExchange, _ channels: any ChannelDirectory,
        _ calls: PusherRoutes, _ answer: @escaping Answer
    ) -> HTTPResponse? {
        let index: Int
        let call: SignedCall
        let seconds = UnixTime.read().microseconds / 1_000_000
        do throws(CallProblem) {
            guard let app = channels.app(id: appID) else { throw .unknownApp }
            guard app.features.isEnabled else { throw .disabled }
            index = app.index
            call = try request.verified(by: app, at: seconds)
        } catch {
            return error.response
        }
        if let problem = Self.otherType(request) { return problem }
        guard let user = match.capture(Self.userName) ?? Self.member(Self.userName, request.body), !user.isEmpty else {
            return .problem(.badRequest, "userId must name the user whom this is about.")
        }
        guard let replayGuard = calls.replayGuard else {
            perform(request, match, user, exchange, calls.metrics, answer)
            return nil
        }
        let hadNoEffect = { @Sendable (response: HTTPResponse) in
            response.status == .badRequest || response.status == .serviceUnavailable && !match.route.kind.isAction
        }
        if let shared = calls.shared, let app = channels.app(id: appID) {
            let seen = SeenCall(call, of: app)
            shared.see(seen) { verdict in
                if let problem = CallProblem(verdict) { return answer(problem.response) }
                perform(request, match, user, exchange, calls.metrics) { response in
                    if hadNoEffect(response) { shared.forget(seen) }
                    answer(response)
                }
            }
            return nil
        }
        do throws(CallProblem) {
            try replayGuard.take(call, of: index, now: seconds)
        } catch {
            return error.response
        }
        perform(request, match, user, exchange, calls.metrics) { response in
            if hadNoEffect(response) { replayGuard.remove(call, of: index) }
            answer(response)
        }
        return nil
    }

    private func perform(
        _ request: HTTPRequest, _ match: RouteTable.Match, _ user: String, _ exchange: HTTPExchange,
        _ metrics: APIMetrics, _ answer: @escaping Answer
    ) {
        let route = match.route
        let isByApp = route.caller == .app
        var arguments: [String?] = []
        do throws(RouteParameter.Problem) {
            for parameter in route.parameters {
                arguments.append(
                    try parameter.argument(capture: match.capture("\(parameter.name)"), query: request.query))
            }
        } catch {
            return answer(.problem(.badRequest, text: error.message))
        }
        switch route.kind {
        case .read(let function, let freshness):
            exchange.query(function, arguments, of: user) {
                answer(.snapshot($0, freshness, unless: request.ifNoneMatch, route.failures))
            }
        case .append(let function):
            guard let documents = Self.objects(request.body) else {
                return answer(
                    .problem(
                        .badRequest, text: "Send a JSON object, or a list of \(APILimits.appendedAtOnce) at most."))
            }
            exchange.append(documents, to: function, of: user) {
                metrics.appended[$0 == .taken ? "taken" : "refused"].add(documents.count)
                answer(.appended($0))
            }
        case .export(let function):
            guard request.takesChunks else {
                return answer(.problem(.versionNotSupported, "An export needs HTTP/1.1: its length is not known."))
            }
            exchange.export(function, arguments, of: user) {
                metrics.exportEnds[$0 ? "whole" : "broken"].add()
            } _: {
                metrics.exports[$0.label].add()
                answer(.export($0, route.failures))
            }
        case .action(let shape):
            let named =
                zip(route.parameters, arguments).compactMap { parameter, argument in
                    argument.map { (parameter.name, parameter.kind.json($0)) }
                } + route.said.map { ($0.name, Array("\($0.json)".utf8)) }
            do throws(ActionError) {
                // No fresh key for a backend: its call may come twice, and a key made here would not show that.
                let key = request.actionKey ?? (shape.isWhole && !isByApp ? Self.freshKey() : nil)
                let (envelope, wording) = try ActionEnvelope.decode(
                    request.body, plain: shape, keyField: key, beside: named)
                exchange.act(envelope, as: user, isByApp: isByApp) { answer(.result($0, wording, route.failures)) }
            } catch {
                answer(.refusal(of: error, route.failures))
            }
        case .question(let function):
            guard (request.body.withUnsafeBytes { try? JSONValue.parse($0).kind }) == .object else {
                return answer(.problem(.badRequest, "Send a JSON object."))
            }
            exchange.query(function, arguments + [String(decoding: request.body, as: UTF8.self)], of: user) {
                answer(.snapshot($0, .unkept, unless: nil, route.failures))
            }
        case .changes(let function, let most):
            do throws(ActionBatch.Problem) {
                let batch = try ActionBatch(changes: request.body, most: most)
                batch.carryOut {
                    exchange.act($0, as: user, isByApp: isByApp, $1)
                } done: { answers in
                    exchange.query(function, [], of: user) { answer(.synced(answers, $0, as: user)) }
                }
            } catch {
                answer(.problem(.badRequest, text: error.message))
            }
        case .batch(let member, let most):
            do throws(ActionBatch.Problem) {
                let batch = try ActionBatch(member, request.body, most: most)
                batch.carryOut {
                    exchange.act($0, as: user, isByApp: isByApp, $1)
                } done: {
                    answer(.results($0))
                }
            } catch {
                answer(.problem(.badRequest, text: error.message))
            }
        }
    }

    private static let userName = "userId"

    /// A key for an action whose client sent none and will not repeat it.
    private static func freshKey() -> String {
        var random = SystemRandomNumberGenerator()
        return "hub-" + String(random.next(), radix: 16) + String(random.next(), radix: 16)
    }

    /// Refuses a content type other than JSON. A request without a content type is accepted: its body decides.
    private static func otherType(_ request: HTTPRequest) -> HTTPResponse? {
        guard request.method != .get, request.method != .head, let type = request.contentType?.lowercased() else {
            return nil
        }
        let rest = type.utf8.dropFirst("application/json".utf8.count)
        let isJSON = type.hasPrefix("application/json") && (rest.isEmpty || rest.first == 0x3B || rest.first == 0x20)
        return isJSON ? nil : .problem(.unsupportedMediaType, "Send JSON: application/json.")
    }

    /// The objects of the body: a single one, or a list of one or more; nil for anything else.
    private static func objects(_ body: [UInt8]) -> [[UInt8]]? {
        body.withUnsafeBytes { body in
            guard let value = try? JSONValue.parse(body) else { return nil }
            if value.kind == .object { return [Array(value.bytes)] }
            var objects: [[UInt8]] = []
            guard var elements = try? value.array() else { return nil }
            while let element = try? elements.next() {
                guard element.kind == .object, objects.count < APILimits.appendedAtOnce else { return nil }
                objects.append(Array(element.bytes))
            }
            return objects.isEmpty ? nil : objects
        }
    }

    private static func member(_ name: String, _ body: [UInt8]) -> String? {
        body.withUnsafeBytes { body in
            guard var reader = try? JSONObjectReader(body) else { return nil }
            while let member = try? reader.next() {
                if member.key.string == name { return member.value.string }
            }
            return nil
        }
    }
}

extension HTTPRequest {
    /// The key in the field `Idempotency-Key`: bare, or in quotes as the IETF draft requires. Invalid UTF-8 gives an empty
    /// key.
    fileprivate var actionKey: String? {
        idempotencyKey?.withUnsafeBytes { field in
            let isQuoted = field.count >= 2 && field.first == 0x22 && field.last == 0x22
            let key = isQuoted ? field.part(1..<field.count - 1) : field
            return UTF8Validator.isValid(key) ? key.string : ""
        }
    }
}

extension RouteParameter.Kind {
    fileprivate func json(_ argument: String) -> [UInt8] {
        if case .integer = self { return Array(argument.utf8) }
        var writer = ByteWriter(capacity: argument.utf8.count + 2)
        writer.append(jsonString: argument)
        return writer.array
    }
}
