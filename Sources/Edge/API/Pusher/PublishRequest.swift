import Bytes
import Gateway
import HubEngine
import Pusher

/// What a call publishes: its events with their channels, and the form of its answer.
struct PublishRequest: Sendable {
    let events: [PublishedEvent]
    private let route: PusherPath.Route?

    /// Reads the body, or the parameters if there is no body (Pusher: "parameters MAY be submitted in the query string").
    init(
        _ path: PusherPath, _ body: UnsafeRawBufferPointer, _ parameters: CallParameters, of app: App
    ) throws(PublishError) {
        var limits = PublishLimits()
        limits.dataBytes = app.limits.eventBytesMax
        limits.channels = app.limits.channelsPerPublishMax
        limits.events = app.limits.batchEventsMax
        route = path.route
        switch path.route {
        case .batchEvents:
            events = try PublishedEvent.decode(batch: body, limits: limits)
        case .channelEvents:
            guard let channel = ChannelName(path.subject) else { throw PublishError(.badChannel(index: nil)) }
            events = [try PublishedEvent.decode(data: body, parameters, to: channel, limits: limits)]
        default:
            events =
                body.count > 0
                ? [try PublishedEvent.decode(body, limits: limits)]
                : [try PublishedEvent.decode(parameters, limits: limits)]
        }
        guard app.ownsDatabase else { return }
        for (index, event) in events.enumerated() where event.channels.contains(where: \.isUsersOwn) {
            throw PublishError(.ownedChannel, index: path.route == .batchEvents ? index : nil)
        }
    }

    /// One publication per channel of each event.
    var publications: [Publication] {
        if events.count == 1, let event = events.first, event.channels.count == 1, let channel = event.channels.first {
            return [Publication(channel: channel, event: event.name, data: event.data, except: event.except)]
        }
        return events.flatMap { event in
            event.channels.map {
                Publication(channel: $0, event: event.name, data: event.data, except: event.except)
            }
        }
    }

    /// Whether the answer reports attributes of the channels.
    var asksForFacts: Bool { events.contains { !$0.info.isEmpty } }

    /// The answer, given the facts of the channels in the order of `publications`.
    func answer(_ facts: [ChannelFacts]) -> HTTPResponse {
        switch route {
        case .batchEvents: return ChannelAnswers.published(batch: events, facts)
        case .channelEvents: return ChannelAnswers.accepted
        default:
            guard let event = events.first else { return ChannelAnswers.nothing }
            return ChannelAnswers.published(event.channels, facts, event.info)
        }
    }
}

extension ChannelName {
    /// Whether the channel belongs to a user in the app that owns the database.
    fileprivate var isUsersOwn: Bool {
        var name = string
        return name.withUTF8 { name in
            let name = UnsafeRawBufferPointer(name)
            return name.hasPrefix("user.") || name.hasPrefix("private-user.")
        }
    }
}

extension PublishError {
    /// The app's limit that the publish exceeds; nil if it is wrong for another reason.
    var limit: AppLimit? {
        switch reason {
        case .largeData: .eventBytes
        case .manyChannels: .channelsPerPublish
        case .manyEvents: .batchEvents
        default: nil
        }
    }
}
