import API
import Bytes
import Digests
import Gateway
import HubEngine
import Pusher
import Reactor

/// An app's backend: makes signed calls of Pusher's HTTP API, as its libraries do.
struct PusherCaller {
    var credentials = AppCredentials(key: "key", secret: "secret")
    var app = "1"
    /// The time of signing, in seconds since 1970.
    var time: Int64 = 1_700_000_000

    /// The text of a request.
    ///
    /// - Parameters:
    ///   - path: below `/apps/{app}`, escaped; absolute if it begins with two slashes.
    ///   - query: parameters beside those of the signature, not escaped.
    ///   - fields: further lines of the head.
    func call(
        _ method: StaticString, _ path: String, _ query: [(String, String)] = [], body: String = "",
        fields: String = "",
        isKept: Bool = true
    ) -> String {
        let path = path.hasPrefix("//") ? String(path.dropFirst()) : "/apps/\(app)\(path)"
        var parameters = [("auth_key", credentials.key), ("auth_timestamp", String(time)), ("auth_version", "1.0")]
        if !body.isEmpty { parameters.append(("body_md5", Array(body.utf8).withUnsafeBytes { MD5($0).hex })) }
        parameters = (parameters + query).sorted { $0.0 < $1.0 }
        let code = credentials.sign(
            call: method, path: path, parameters: parameters.map { "\($0.0)=\($0.1)" }.joined(separator: "&"))
        let sent = (parameters + [("auth_signature", code)]).map { "\($0.0)=\(Self.escaped($0.1))" }
        let length = body.isEmpty ? "" : "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n"
        return "\(method) \(path)?\(sent.joined(separator: "&")) HTTP/1.1\r\nHost: h\r\n\(length)\(fields)"
            + (isKept ? "" : "Connection: close\r\n") + "\r\n\(body)"
    }

    func get(_ path: String, _ query: [(String, String)] = []) -> String { call("GET", path, query) }

    func post(_ path: String, _ body: String, fields: String = "") -> String {
        call("POST", path, body: body, fields: fields)
    }

    func publish(_ channel: String, _ event: String = "e", _ data: String = "{}", fields: String = "") -> String {
        post(
            "/events", #"{"name":"\#(event)","channel":"\#(channel)","data":"\#(data.replacing("\"", with: "\\\""))"}"#,
            fields: fields)
    }

    private static func escaped(_ value: String) -> String {
        value.utf8.map { byte in
            byte.isASCIILetter || byte.isASCIIDigit || "-._~".utf8.contains(byte)
                ? String(UnicodeScalar(byte)) : "%" + String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
        }.joined()
    }
}

/// A table of channels in place of the hub's. It answers at once, or holds answers until `release`.
final class ModelDirectory: ChannelDirectory, Sendable {
    private struct State {
        var facts: [String: ChannelFacts] = [:]
        var users: [String: [String]] = [:]
        var published: [Publication] = []
        var terminated: [String] = []
        var isOverloaded = false
        var isUnavailable = false
        var fault = StateFault.notDone
        var holds = false
        var held: [@Sendable () -> Void] = []
    }

    let apps: [App]
    private let state = Locked(State())

    init(_ apps: [App]) {
        self.apps = apps
    }

    /// The published events, as `channel event data`.
    var published: [String] {
        state.withLock { $0.published }.map {
            "\($0.channel.string) \($0.event) \(String(decoding: $0.data, as: UTF8.self))"
                + ($0.except.map { " but \($0.string)" } ?? "")
        }
    }

    var terminated: [String] { state.withLock { $0.terminated } }
    /// Waits until an answer is held; bounded only by the suite's time limit.
    func untilHeld() async {
        while state.withLock({ $0.held.isEmpty }) { await Task.yield() }
    }

    func set(_ channel: String, _ subscriptions: Int, users: [String]? = nil, cached: CachedEvent? = nil) {
        state.withLock { state in
            var facts = ChannelFacts()
            facts.subscriptionCount = subscriptions
            facts.userCount = users?.count
            facts.cached = cached
            state.facts[channel] = facts
            state.users[channel] = users
        }
    }

    /// Adds `count` channels, each with one subscriber.
    func add(_ count: Int, named prefix: String) {
        var facts = ChannelFacts()
        facts.subscriptionCount = 1
        let one = facts
        state.withLock { state in
            for number in 0..<count { state.facts["\(prefix)\(number)"] = one }
        }
    }

    var isOverloaded: Bool {
        get { state.withLock { $0.isOverloaded } }
        set { state.withLock { $0.isOverloaded = newValue } }
    }

    /// Whether the shared state is out of reach.
    var isUnavailable: Bool {
        get { state.withLock { $0.isUnavailable } }
        set { state.withLock { $0.isUnavailable = newValue } }
    }

    /// What is known then of a call.
    var fault: StateFault {
        get { state.withLock { $0.fault } }
        set { state.withLock { $0.fault = newValue } }
    }

    func isOverloaded(by app: App) -> Bool { isOverloaded }

    /// Holds answers from now on.
    func hold() {
        state.withLock { $0.holds = true }
    }

    /// Gives the held answers, on the caller's thread.
    func release() {
        let held = state.withLock { state in
            state.holds = false
            return exchange(&state.held, with: [])
        }
        for answer in held { answer() }
    }

    private func give<Value: Sendable>(_ value: Value, _ answer: @escaping @Sendable (Value) -> Void) -> Value? {
        state.withLock { state in
            guard state.holds else { return value }
            state.held.append { answer(value) }
            return nil
        }
    }

    private func facts(_ name: String) -> ChannelFacts {
        state.withLock { $0.facts[name] } ?? ChannelFacts()
    }

    func app(id: String) -> App? { apps.first { $0.id == id } }
    func app(key: String) -> App? { apps.first { $0.credentials.key == key } }

    /// What is known, unless the shared state is out of reach.
    private func know<Value>(_ value: Value) -> Known<Value> {
        isUnavailable ? .failure(StateUnavailable(fault)) : .success(value)
    }

    func publish(
        _ publications: [Publication], of app: App, tellsFacts: Bool,
        _ answer: @escaping @Sendable (Known<[ChannelFacts]>) -> Void
    ) -> Known<[ChannelFacts]>? {
        state.withLock { $0.published += publications }
        return give(know(publications.map { facts($0.channel.string) }), answer)
    }

    func channels(
        of app: App, prefix: String, max: Int, _ answer: @escaping @Sendable (Known<[String: ChannelFacts]>) -> Void
    ) -> Known<[String: ChannelFacts]>? {
        let found = state.withLock { $0.facts }.filter { $0.key.hasPrefix(prefix) && $0.value.subscriptionCount > 0 }
        return give(know(found), answer)
    }

    func facts(
        of channel: ChannelName, of app: App, _ answer: @escaping @Sendable (Known<ChannelFacts>) -> Void
    ) -> Known<ChannelFacts>? {
        give(know(facts(channel.string)), answer)
    }

    func users(
        in channel: ChannelName, of app: App, _ answer: @escaping @Sendable (Known<[String]>) -> Void
    ) -> Known<[String]>? {
        give(know(state.withLock { $0.users[channel.string] } ?? []), answer)
    }

    func terminate(_ userID: String, of app: App, _ answer: @escaping @Sendable () -> Void) -> Void? {
        state.withLock { $0.terminated.append(userID) }
        return give((), answer)
    }
}

/// The names in an unordered list of channels, sorted.
func sortedChannels(_ body: String) -> String {
    let (start, end) = (#"{"channels":{"#, "}}")
    guard body.hasPrefix(start), body.hasSuffix(end) else { return body }
    let channels = body.dropFirst(start.count).dropLast(end.count).split(separator: "},").map {
        $0.hasSuffix("}") ? String($0) : $0 + "}"
    }
    return start + channels.sorted().joined(separator: ",") + end
}
