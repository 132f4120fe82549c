import Bytes
import Clock
import Gateway
import HTTP
import HubEngine
import Metrics
import Pusher
import Reactor
import Shared
import Sync

/// Pusher's HTTP API (pusher.md §2): an app's backend publishes, queries channels and closes connections. The app signs
/// each call.
///
/// Additions to Pusher's API: a publish with an `Idempotency-Key` is done once, and every repeat gets the first answer;
/// replayed calls can be refused. No CORS: no page holds an app's secret.
package final class PusherRoutes: Sendable {
    /// Settings common to all apps.
    package struct Settings: Sendable {
        /// Refuse a call whose signature was seen before, or may have been seen before these routes were created.
        package var refusesReplays = false
        /// Keys whose answers are kept; 0 ignores keys.
        package var idempotencyKeysMax = 65_536
        /// How long an answer is kept.
        package var idempotencyTime: Duration = .seconds(3600)

        /// The defaults.
        package init() {}
    }

    let idempotencyCache: IdempotencyCache?
    let replayGuard: ReplayGuard?
    /// Apps whose channels are being listed.
    private let listing = Locked<Set<Int>>([])
    let metrics: APIMetrics
    /// Where hubs share keys and their answers, and seen calls, in place of `idempotencyCache` and `replayGuard`.
    let shared: SharedRedis?
    private let now: @Sendable () -> UnixTime

    /// - Parameters:
    ///   - shared: what this hub shares with others; nil: it is alone.
    ///   - now: the clock that timestamps are checked against.
    package init(
        _ settings: Settings = Settings(), metrics: APIMetrics = APIMetrics(), shared: SharedRedis? = nil,
        now: @escaping @Sendable () -> UnixTime = UnixTime.read
    ) {
        idempotencyCache =
            settings.idempotencyKeysMax > 0
            ? IdempotencyCache(keysMax: settings.idempotencyKeysMax, time: settings.idempotencyTime) : nil
        replayGuard = settings.refusesReplays ? ReplayGuard(startedAt: now().microseconds / 1_000_000) : nil
        self.metrics = metrics
        self.shared = shared
        self.now = now
    }

    /// Receives an answer that comes later.
    typealias Answer = @Sendable (HTTPResponse) -> Void

    /// Returns the answer, or nil if `answer` will get it.
    func respond(
        to request: HTTPRequest, _ path: PusherPath, _ channels: any ChannelDirectory, _ exchange: HTTPExchange,
        _ answer: @escaping Answer
    ) -> HTTPResponse? {
        guard let route = path.route else {
            // Whether its signature is good, nobody has looked.
            var missing = HTTPResponse.problem(.notFound, "Pusher's HTTP API has no such call.")
            missing.isForStrangers = true
            return missing
        }
        var caller: App?
        let response: HTTPResponse?
        do throws(CallProblem) {
            guard request.method == (route.isPost ? .post : .get) else { throw .otherMethod(isPost: route.isPost) }
            let app = try self.app(of: request, path, channels)
            caller = app
            response = try self.response(to: request, path, route, of: app, channels, exchange) { [metrics] response in
                metrics.answered(route, response.status.code)
                app.counts.answered(response.status.code)
                answer(response)
            }
        } catch {
            if let refusal = error.refusal { metrics.refused(refusal) }
            var refused = error.response
            refused.isForStrangers = error.showsNoIdentity
            response = refused
        }
        if let response {
            metrics.answered(route, response.status.code)
            caller?.counts.answered(response.status.code)
        }
        return response
    }

    private func response(
        to request: HTTPRequest, _ path: PusherPath, _ route: PusherPath.Route, of app: App,
        _ channels: any ChannelDirectory, _ exchange: HTTPExchange, _ answer: @escaping Answer
    ) throws(CallProblem) -> HTTPResponse? {
        guard app.features.isEnabled else { throw .disabled }
        let seconds = now().microseconds / 1_000_000
        let call = try request.verified(by: app, at: seconds)
        switch route {
        case .events, .batchEvents, .channelEvents:
            return try publishOnce(request, path, call, seconds, of: app, channels, exchange, answer)
        case .channels:
            return try once(call, seconds, of: app, channels, exchange, answer) { channels throws(CallProblem) in
                try self.list(path, call, of: app, channels, answer)
            }
        case .channel, .users, .channelStats, .terminate:
            return try once(call, seconds, of: app, channels, exchange, answer) { channels throws(CallProblem) in
                let question = try ChannelQuery(route, path.subject, call.parameters)
                // Closing connections relieves the hub, so overload does not refuse it.
                if route != .terminate, channels.isOverloaded(by: app) { throw .overloaded }
                return question.ask(of: app, channels, unless: self.refused, answer)
            }
        }
    }

    // MARK: The caller

    private func app(
        of request: HTTPRequest, _ path: PusherPath, _ channels: any ChannelDirectory
    ) throws(CallProblem) -> App {
        if let id = path.app {
            guard let app = channels.app(id: id) else { throw .unknownApp }
            return app
        }
        let key = request.query.withUnsafeBytes { query in
            Result { () throws(CallRefusal) in try CallParameters(query: query).string("auth_key") }
        }
        do throws(CallRefusal) {
            guard let app = try key.get().flatMap({ channels.app(key: $0) }) else { throw .wrongKey }
            return app
        } catch {
            throw CallProblem(error)
        }
    }

    // MARK: Once

    /// Runs `body` unless the call was seen before: where hubs share a state, at any of them, and `body` runs later. A call
    /// that is refused may be sent again.
    ///
    /// - Parameter refuse: gets what `body` throws later; nil: the answer is the problem's own.
    private func once(
        _ call: SignedCall, _ seconds: Int64, of app: App, _ channels: any ChannelDirectory, _ exchange: HTTPExchange,
        _ answer: @escaping Answer, refuse: (@Sendable (CallProblem) -> Void)? = nil,
        _ body: @escaping @Sendable (any ChannelDirectory) throws(CallProblem) -> HTTPResponse?
    ) throws(CallProblem) -> HTTPResponse? {
        guard let replayGuard else { return try body(channels) }
        guard let shared else {
            try replayGuard.take(call, of: app.index, now: seconds)
            do throws(CallProblem) {
                return try body(channels)
            } catch {
                replayGuard.remove(call, of: app.index)
                throw error
            }
        }
        let refuse = refuse ?? { answer(self.refused($0)) }
        let seen = SeenCall(call, of: app)
        shared.see(seen) { verdict in
            if let problem = CallProblem(verdict) { return refuse(problem) }
            exchange.goOn { channels in
                do throws(CallProblem) {
                    if let response = try body(channels) { answer(response) }
                } catch {
                    shared.forget(seen)
                    refuse(error)
                }
            }
        }
        return nil
    }

    /// Publishes, unless the call's key was used before: then this call gets the first answer, even if it is signed anew.
    private func publishOnce(
        _ request: HTTPRequest, _ path: PusherPath, _ call: SignedCall, _ seconds: Int64, of app: App,
        _ channels: any ChannelDirectory, _ exchange: HTTPExchange, _ answer: @escaping Answer
    ) throws(CallProblem) -> HTTPResponse? {
        guard let idempotencyCache, let key = request.idempotencyKey else {
            // Nearly always: it keeps nothing for later.
            guard replayGuard != nil else { return try publish(request, path, call, of: app, channels, answer) }
            return try once(call, seconds, of: app, channels, exchange, answer) { channels throws(CallProblem) in
                try self.publish(request, path, call, of: app, channels, answer)
            }
        }
        guard (1...APILimits.idempotencyKeyBytes).contains(key.count) else { throw .badKey }
        var route = request.path
        let digest = route.withUTF8 { route in
            request.body.withUnsafeBytes {
                CallDigest(path: UnsafeRawBufferPointer(route), body: $0, call.parameters)
            }
        }
        if let shared {
            let wanted = PublishKey(key, of: app, call: digest.bytes)
            shared.begin(wanted) { verdict in
                switch verdict {
                case .new:
                    exchange.goOn {
                        self.publish(
                            request, path, call, seconds, of: app, under: wanted, in: shared, $0, exchange, answer)
                    }
                case .kept(let body):
                    self.metrics.repeats.add()
                    answer(path.route == .channelEvents ? ChannelAnswers.accepted : HTTPResponse(.ok, body: body))
                case .underWay: answer(self.refused(.underWay))
                case .otherCall: answer(self.refused(.otherCall))
                case .full: answer(self.refused(.tooManyKeys))
                case .unavailable: answer(self.refused(.unpublished(StateUnavailable(.notDone))))
                }
            }
            return nil
        }
        let ticket: IdempotencyCache.Ticket
        switch idempotencyCache.begin(IdempotencyCache.Key(index: app.index, bytes: key), digest, at: .read()) {
        case .new(let given): ticket = given
        case .underWay: throw .underWay
        case .otherCall: throw .otherCall
        case .full: throw .tooManyKeys
        case .kept(let response):
            metrics.repeats.add()
            return response
        }
        do throws(CallProblem) {
            let response = try once(call, seconds, of: app, channels, exchange, answer) {
                channels throws(CallProblem) in
                try self.publish(request, path, call, of: app, channels) { response in
                    idempotencyCache.settle(ticket, response)
                    answer(response)
                }
            }
            if let response { idempotencyCache.settle(ticket, response) }
            return response
        } catch {
            idempotencyCache.abandon(ticket)
            throw error
        }
    }

    /// Publishes what no hub has published under that key, or only in part.
    private func publish(
        _ request: HTTPRequest, _ path: PusherPath, _ call: SignedCall, _ seconds: Int64, of app: App,
        under key: PublishKey, in shared: SharedRedis, _ channels: any ChannelDirectory, _ exchange: HTTPExchange,
        _ answer: @escaping Answer
    ) {
        let refuse = { @Sendable (problem: CallProblem) in
            let response = self.refused(problem)
            shared.settle(key, nil) { answer(response) }
        }
        let settle = { @Sendable (response: HTTPResponse) in
            // One that says to come back later leaves the key free. Answered once it is settled: a repeat may be at another
            // hub at once.
            shared.settle(key, response.status == .serviceUnavailable ? nil : response.body) { answer(response) }
        }
        do throws(CallProblem) {
            let response = try once(call, seconds, of: app, channels, exchange, settle, refuse: refuse) {
                channels throws(CallProblem) in
                try self.publish(request, path, call, of: app, channels, once: key.once, settle)
            }
            if let response { settle(response) }
        } catch {
            refuse(error)
        }
    }

    private func refused(_ problem: CallProblem) -> HTTPResponse {
        if let refusal = problem.refusal { metrics.refused(refusal) }
        if problem.isOfRedis { shared?.metrics.unavailable.add() }
        return problem.response
    }

    // MARK: Asking

    /// Lists an app's channels, one call at a time: each loop scans all its channels.
    private func list(
        _ path: PusherPath, _ call: SignedCall, of app: App, _ channels: any ChannelDirectory,
        _ answer: @escaping Answer
    ) throws(CallProblem) -> HTTPResponse? {
        let question = try ChannelQuery(.channels, path.subject, call.parameters)
        if channels.isOverloaded(by: app) { throw .overloaded }
        guard listing.withLock({ $0.insert(app.index).inserted }) else { throw .listUnderWay }
        let response = question.ask(of: app, channels, unless: refused) { [listing] response in
            _ = listing.withLock { $0.remove(app.index) }
            answer(response)
        }
        if response != nil { _ = listing.withLock { $0.remove(app.index) } }
        return response
    }

    // MARK: Publishing

    private func publish(
        _ request: HTTPRequest, _ path: PusherPath, _ call: SignedCall, of app: App,
        _ channels: any ChannelDirectory, once: UInt64? = nil, _ answer: @escaping Answer
    ) throws(CallProblem) -> HTTPResponse? {
        let read = request.body.withUnsafeBytes { body in
            Result { () throws(PublishError) in try PublishRequest(path, body, call.parameters, of: app) }
        }
        let order: PublishRequest
        switch read {
        case .success(let wanted): order = wanted
        case .failure(let error):
            if let limit = error.limit { app.counts.refused(limit) }
            throw CallProblem(error)
        }
        if channels.isOverloaded(by: app) { throw .overloaded }
        if let wait = app.takePublishes(order.events.count, at: .read()) {
            app.counts.refused(.publishesPerSecond)
            throw .tooFast(wait)
        }
        var publications = order.publications
        if let once {
            for index in publications.indices { publications[index].once = max(1, once &+ UInt64(index)) }
        }
        metrics.published.add(publications.count)
        return channels.publish(publications, of: app, tellsFacts: order.asksForFacts) {
            answer(self.told($0, order))
        }.map { told($0, order) }
    }

    private func told(_ known: Result<[ChannelFacts], StateUnavailable>, _ order: PublishRequest) -> HTTPResponse {
        switch known {
        case .success(let facts): order.answer(facts)
        case .failure(let state): refused(.unpublished(state))
        }
    }
}

extension HTTPRequest {
    /// Verifies the request as a call signed by the app; `seconds` is the time since 1970.
    func verified(by app: App, at seconds: Int64) throws(CallProblem) -> SignedCall {
        var path = path
        let result: Result<SignedCall, CallRefusal> = path.withUTF8 { path in
            query.withUnsafeBytes { query in
                body.withUnsafeBytes { body in
                    Result { () throws(CallRefusal) in
                        try SignedCall(
                            SignedCall.Request(
                                method: method.name, path: UnsafeRawBufferPointer(path), query: query, body: body),
                            by: app.credentials, now: seconds)
                    }
                }
            }
        }
        switch result {
        case .success(let call): return call
        case .failure(let refusal): throw CallProblem(refusal)
        }
    }
}
