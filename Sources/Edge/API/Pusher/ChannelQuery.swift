import Bytes
import Gateway
import HTTP
import HubEngine
import Pusher

/// A call that queries an app's channels, or closes a user's connections.
struct ChannelQuery {
    private enum Kind {
        case channels(prefix: String, ChannelInfo)
        case channel(ChannelName, ChannelInfo)
        case stats(ChannelName)
        case users(ChannelName)
        case terminate(String)
    }

    private let kind: Kind

    /// - Parameter subject: the channel or the user in the path.
    init(_ route: PusherPath.Route, _ subject: String, _ parameters: CallParameters) throws(CallProblem) {
        switch route {
        case .channels:
            let prefix = parameters.string("filter_by_prefix") ?? ""
            let info = try Self.info(parameters)
            guard !info.contains(.cache) else {
                throw .invalid("info may ask for user_count and subscription_count here; cache is told of one channel.")
            }
            guard !info.contains(.userCount) || prefix.hasPrefix("presence-") else {
                throw .invalid("user_count is told of presence channels: filter_by_prefix must begin with presence-.")
            }
            kind = .channels(prefix: prefix, info)
        case .terminate:
            guard !subject.isEmpty else { throw .invalid("The path names no user.") }
            kind = .terminate(subject)
        case .channel, .channelStats, .users, .events, .batchEvents, .channelEvents:
            guard let name = ChannelName(subject) else {
                throw .invalid("The path names no channel: 1 to 200 letters, digits and _-=@,.; are a channel's name.")
            }
            kind = try Self.kind(route, name, parameters)
        }
    }

    private static func kind(
        _ route: PusherPath.Route, _ name: ChannelName, _ parameters: CallParameters
    ) throws(CallProblem) -> Kind {
        switch route {
        case .channelStats: return .stats(name)
        case .users:
            guard name.kind.isPresence else { throw .invalid("Users are known of presence channels only.") }
            return .users(name)
        default:
            let info = try info(parameters)
            guard !info.contains(.userCount) || name.kind.isPresence else {
                throw .invalid("user_count is told of presence channels only.")
            }
            guard !info.contains(.cache) || name.kind.isCache else {
                throw .invalid("cache is told of cache channels only.")
            }
            return .channel(name, info)
        }
    }

    private static func info(_ parameters: CallParameters) throws(CallProblem) -> ChannelInfo {
        guard let info = parameters.withValue("info", { ChannelInfo(list: $0) }) else { return [] }
        guard let info else {
            throw .invalid("info may ask for user_count, subscription_count and cache, separated by commas.")
        }
        return info
    }

    /// Returns the answer, or nil if `answer` will get it.
    func ask(
        of app: App, _ channels: any ChannelDirectory,
        unless refused: @escaping @Sendable (CallProblem) -> HTTPResponse, _ answer: @escaping PusherRoutes.Answer
    ) -> HTTPResponse? {
        /// Tells what is known in that form.
        func form<Value>(
            _ form: @escaping @Sendable (Value) -> HTTPResponse
        ) -> @Sendable (Result<Value, StateUnavailable>) -> HTTPResponse {
            { known in
                switch known {
                case .success(let value): form(value)
                case .failure(let state): refused(.unanswered(state))
                }
            }
        }
        switch kind {
        case .channels(let prefix, let info):
            let form = form { ChannelAnswers.channels($0, info) }
            return channels.channels(of: app, prefix: prefix, max: APILimits.channelsNamed) { answer(form($0)) }
                .map(form)
        case .channel(let name, let info):
            let form = form { ChannelAnswers.channel($0, info) }
            return channels.facts(of: name, of: app) { answer(form($0)) }.map(form)
        case .stats(let name):
            let form = form { ChannelAnswers.stats($0) }
            return channels.facts(of: name, of: app) { answer(form($0)) }.map(form)
        case .users(let name):
            let form = form { ChannelAnswers.users($0) }
            return channels.users(in: name, of: app) { answer(form($0)) }.map(form)
        case .terminate(let user):
            return channels.terminate(user, of: app) { answer(ChannelAnswers.nothing) }
                .map { ChannelAnswers.nothing }
        }
    }
}
