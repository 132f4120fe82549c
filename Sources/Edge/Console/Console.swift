import API
import Bytes
import Clock
import Gateway
import HTTP
import HubEngine
import JSON
import Logging
import Operations
import Reactor
import Shared
import Store
import Sync

// Console: the page for operators at `/console` on the operations listener (Sources/Clients/Console), and the routes that it
// asks. `ConsoleAccess` decides who may; `ConsoleRoute` reads requests; the gateway's loops answer from what they hold and
// what they remember (`EventTrace`), and the database from its log; `EventWay` judges what became of an event. Rates,
// latencies and memory the page takes from `/metrics`.
//
// Lifecycle: it exists before the gateway, which `serves` it later; until then it answers 503. Invariants: it never blocks
// the listener's thread; at most `ConsoleLimits.questionsMax` questions are under way; a payload is shown only where the
// settings allow it, and each look is logged first, without what was seen.

/// The console of one hub. Any thread.
package final class Console: OperationsRoutes {
    /// What may be done, and by whom.
    package struct Rules: Sendable {
        /// What a caller shows as a bearer token; nil for `carillon dev`, where browsers of this machine need none.
        package var credential: String?
        /// Whether the data of users' events may be looked at.
        package var showsPayloads: Bool

        /// - Parameter credential: nil only for `carillon dev`.
        package init(credential: String?, showsPayloads: Bool) {
            self.credential = credential
            self.showsPayloads = showsPayloads
        }
    }

    let rules: Rules
    private let access: ConsoleAccess
    private let version: String
    private let logger: Logger
    private let gateway = Locked<Gateway?>(nil)
    private let group = Locked<(@Sendable () throws -> (HubGroup, own: String))?>(nil)
    private let groupQuestions = BoundedCount()
    private let questions = BoundedCount()
    private let refusals = Locked((count: 0, toldAt: Instant.min))

    /// The request's own bytes are all that a body may have.
    package let bodyBytesMax = ConsoleLimits.bodyBytesMax

    /// - Parameter version: the program's.
    package init(_ rules: Rules, version: String, logger: Logger) {
        self.rules = rules
        self.version = version
        // Whatever else the log leaves out: each look has its line.
        var logger = logger
        logger.logLevel = min(logger.logLevel, .notice)
        self.logger = logger
        access = ConsoleAccess(credential: rules.credential)
    }

    /// The gateway runs.
    package func serves(_ gateway: Gateway) {
        self.gateway.withLock { $0 = gateway }
    }

    /// The hub shares ordinary channels with others. `ask` says with whom, and which one it is; it may block its thread.
    package func shares(_ ask: @escaping @Sendable () throws -> (HubGroup, own: String)) {
        group.withLock { $0 = ask }
    }

    // MARK: Requests

    /// Whether the path is the console's.
    package func owns(_ request: ParsedRequest) -> Bool {
        request.path.equals("/console") || request.path.hasPrefix("/console/")
    }

    /// Answers now, or when the loops and the database have.
    package func answer(
        _ request: ParsedRequest, from peer: PeerAddress,
        _ reply: @escaping @Sendable (@escaping @Sendable () -> SharedBytes) -> Void
    ) {
        let request = HTTPRequest(request, from: peer)
        var answering = HTTPMachine.Answering()
        answering.omitsBody = request.method == .head
        let write = { @Sendable [answering] (response: @escaping @Sendable () -> HTTPResponse) in
            reply { response().written(answering) }
        }
        guard request.path.hasPrefix("/console/api/") else {
            return write { [page = page(for: request)] in page }
        }
        let send = { @Sendable (response: @escaping @Sendable () -> HTTPResponse) in
            write { WebFile.guarded(response()) }
        }
        if let refusal = access.refusal(of: request) {
            if refusal.status == .unauthorized { wasRefused(peer) }
            return send { refusal }
        }
        let route: ConsoleRoute
        do throws(ConsoleProblem) {
            route = try ConsoleRoute(request)
        } catch {
            return send { [error] in error.response }
        }
        guard let gateway = gateway.withLock({ $0 }) else {
            return send { .problem(.serviceUnavailable, "The hub is starting.") }
        }
        guard questions.enter(most: ConsoleLimits.questionsMax) != nil else {
            return send { .problem(.serviceUnavailable, "The console has too many questions under way.") }
        }
        ask(route, gateway, peer) { [questions] response in
            questions.leave()
            send { response().with("Cache-Control", "no-store") }
        }
    }

    private func page(for request: HTTPRequest) -> HTTPResponse {
        guard access.servesPage(to: request) else {
            return WebFile.guarded(
                .problem(.forbidden, "The console is for browsers of its own machine: use http://127.0.0.1."))
        }
        let isIndex = request.path == "/console" || request.path == "/console/"
        guard let file = WebFile.console[isIndex ? "/console/index.html" : request.path] else {
            return WebFile.guarded(.problem(.notFound, "The console has no such file."))
        }
        guard request.method == .get || request.method == .head else {
            return WebFile.guarded(.problem(.methodNotAllowed, "Use GET."))
        }
        return file.guardedResponse(to: request)
    }

    // MARK: Questions

    private typealias Answer = @Sendable (@escaping @Sendable () -> HTTPResponse) -> Void

    private func ask(_ route: ConsoleRoute, _ gateway: Gateway, _ peer: PeerAddress, _ answer: @escaping Answer) {
        let apps = gateway.apps.apps
        switch route {
        case .hub:
            let (version, rules, shares) = (version, rules, group.withLock { $0 != nil })
            answer { ConsoleAnswers.hub(version, rules, apps, shares: shares) }
        case .hubs: askGroup(answer)
        case .connections(let user, let id):
            let app = apps.first { $0.id == id } ?? apps.first { $0.ownsDatabase } ?? apps.first
            gateway.connections(
                of: user.flatMap { user in app.map { (user, $0) } }, max: ConsoleLimits.connectionsMax
            ) { found in answer { ConsoleAnswers.connections(found, apps) } }
        case .channels(let prefix, let id):
            guard let app = apps.first(where: { $0.id == id }) else { return answer { Self.unknownApp } }
            gateway.channels(of: app, prefix: prefix, max: ConsoleLimits.channelsMax) { found in
                answer { Self.answer(found) { ConsoleAnswers.channels($0) } }
            }
        case .events(let filter):
            gateway.events(filter) { found in answer { ConsoleAnswers.events(found, apps, now: .read()) } }
        case .latency:
            gateway.latencies(within: ConsoleLimits.latencyTime) { found in answer { ConsoleAnswers.latency(found) } }
        case .log(let stream):
            look(gateway, stream, nil, most: ConsoleLimits.loggedMax, shows: false, answer)
        case .members(let channel, let id):
            guard let app = apps.first(where: { $0.id == id }) else { return answer { Self.unknownApp } }
            gateway.users(in: channel, of: app) { users in
                answer { Self.answer(users) { ConsoleAnswers.members($0) } }
            }
        case .payload(let stream, let number):
            guard rules.showsPayloads else {
                return answer { .problem(.forbidden, "This hub shows no payloads (console.payloads).") }
            }
            // Before it is read: no look goes unlogged.
            logger.notice(
                "console: a payload is looked at",
                metadata: ["channel": "\(stream.channel)", "offset": "\(number.offset)", "by": "\(peer)"])
            look(gateway, stream, number, most: 1, shows: true, answer)
        case .way(let stream, let number): trace(gateway, stream, number, answer)
        case .publish(let order, let id):
            guard let app = apps.first(where: { $0.id == id }) else { return answer { Self.unknownApp } }
            publish(order, gateway, app, peer, answer)
        case .terminate(let user, let id):
            guard let app = apps.first(where: { $0.id == id }) else { return answer { Self.unknownApp } }
            logger.notice(
                "console: a user's connections are ended",
                metadata: ["app": "\(app.id)", "user": "\(user)", "by": "\(peer)"])
            gateway.terminate(user, of: app) { count in answer { ConsoleAnswers.ended(count) } }
        }
    }

    /// Asks on a thread of its own, for one caller at a time.
    private func askGroup(_ answer: @escaping Answer) {
        guard let ask = group.withLock({ $0 }) else {
            return answer { .problem(.notFound, "This hub shares nothing with others (redis.url).") }
        }
        let busy = HTTPResponse.problem(.serviceUnavailable, "Redis has been asked, and has not answered yet.")
        guard groupQuestions.enter(most: 1) != nil else { return answer { busy } }
        do {
            try SystemThread(name: "console") { [groupQuestions] in
                let found = Result { try ask() }
                groupQuestions.leave()
                answer {
                    switch found {
                    case .success(let (group, own)): ConsoleAnswers.hubs(group, own: own)
                    case .failure(let error): .problem(.serviceUnavailable, text: "Redis: \(error).")
                    }
                }
            }.detach()
        } catch {
            groupQuestions.leave()
            answer { busy }
        }
    }

    private static func answer<Value>(
        _ known: Result<Value, StateUnavailable>, _ form: (Value) -> HTTPResponse
    ) -> HTTPResponse {
        switch known {
        case .success(let value): form(value)
        case .failure(let state):
            .problem(.serviceUnavailable, "What this hub shares with others is out of reach.")
                .retrying(after: .seconds(state.retryAfter))
        }
    }

    private static let unknownApp = HTTPResponse.problem(.notFound, "This hub does not serve the app.")

    private func publish(
        _ body: [UInt8], _ gateway: Gateway, _ app: App, _ peer: PeerAddress, _ answer: @escaping Answer
    ) {
        let publications: [Publication]
        do throws(ConsoleProblem) {
            publications = try ConsoleRoute.publications(body, of: app)
        } catch {
            return answer { [error] in error.response }
        }
        logger.notice(
            "console: an event is published",
            metadata: [
                "app": "\(app.id)", "channels": "\(publications.count)", "bytes": "\(publications[0].data.count)",
                "by": "\(peer)",
            ])
        gateway.publish(publications, of: app) { facts in
            answer { Self.answer(facts) { ConsoleAnswers.published(publications, $0) } }
        }
    }

    /// Asks the log; the data only where `shows`.
    private func look(
        _ gateway: Gateway, _ stream: ConsoleStream, _ number: ConsoleNumber?, most: Int, shows: Bool,
        _ answer: @escaping Answer
    ) {
        let isAsked = gateway.ask(
            SnapshotRequest(
                user: stream.user, ConsoleLimits.log,
                [stream.topic, (number?.offset).map(String.init), String(most), String(shows)]
            ) { found in answer { ConsoleAnswers.log(found, in: number?.epoch) } })
        if !isAsked { answer { .problem(.notFound, "This hub has no database, and so no users' channels.") } }
    }

    private func trace(
        _ gateway: Gateway, _ stream: ConsoleStream, _ number: ConsoleNumber, _ answer: @escaping Answer
    ) {
        guard let app = gateway.apps.apps.first(where: { $0.ownsDatabase }) else {
            return answer { .problem(.notFound, "This hub has no database, and so no users' channels.") }
        }
        let go = { @Sendable (row: EventWay.Row, epoch: Epoch?) in
            gateway.way(of: stream.id, at: number.offset, in: epoch, app: app) { ways in
                answer {
                    ConsoleAnswers.way(EventWay(offset: number.offset, in: epoch, row: row, ways: ways), now: .read())
                }
            }
        }
        let isAsked = gateway.ask(
            SnapshotRequest(
                user: stream.user, ConsoleLimits.log, [stream.topic, String(number.offset), "1", "false"]
            ) { found in
                let epoch = if case .found(let log) = found { Epoch(log.epoch) } else { nil as Epoch? }
                go(EventWay.Row(found, number.offset, in: number.epoch), number.epoch ?? epoch)
            })
        if !isAsked { go(.unknown, number.epoch) }
    }

    // MARK: Strangers

    /// One line for each interval at most, however many guesses come.
    private func wasRefused(_ peer: PeerAddress) {
        let now = Instant.read()
        let count = refusals.withLock { refusals -> Int? in
            refusals.count += 1
            guard now.duration(since: refusals.toldAt) >= ConsoleLimits.refusalInterval else { return nil }
            refusals.toldAt = now
            return exchange(&refusals.count, with: 0)
        }
        if let count {
            logger.notice("console: credentials refused", metadata: ["count": "\(count)", "latest": "\(peer)"])
        }
    }
}
