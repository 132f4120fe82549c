import Clock
import Metrics

/// The counts of one app, over all loops. Any thread. All values of the app share one object while the hub runs. So what was
/// counted in by an older value can be counted out by a newer one.
package final class AppCounts: Sendable {
    /// WebSockets that are open.
    package let connections = BoundedCount()
    /// Ordinary channels that shards hold.
    package let channels = BoundedCount()
    /// What is left of its rate of publishing.
    let publishes = SharedAllowance()
    /// What was taken of that, where there is such a rate.
    package let publishesTaken = Counter()
    /// What other hubs have of it.
    package let elsewhere = UseElsewhere()
    /// Channels that its connections are in or have asked for, streams included.
    let subscriptions = Gauge()
    /// Messages of its clients.
    package let messages = Counter()
    /// Events to its ordinary channels, by sender, and their deliveries queued to subscribers.
    let published = Counter()
    let clientEvents = Counter()
    /// Deliveries queued to subscribers of its ordinary channels.
    package let deliveries = Counter()
    private let calls = CounterTable("status", ["2xx", "4xx", "5xx"])
    private let limits = CounterTable("limit", AppLimit.allCases.map(\.rawValue))

    /// All at zero.
    package init() {}

    /// A call of the HTTP API that names the app was answered with `status`.
    package func answered(_ status: Int) {
        let kind =
            switch status {
            case 200..<300: "2xx"
            case 500...: "5xx"
            default: "4xx"
            }
        calls[kind].add()
    }

    /// Something was not done because of that limit.
    package func refused(_ limit: AppLimit) {
        limits[limit.rawValue].add()
    }

    /// Writes the metric families of all these apps.
    package static func append(_ apps: [App], to exposition: inout Exposition) {
        func gauge(_ name: StaticString, _ help: StaticString, _ value: (AppCounts) -> Int) {
            exposition.gauge(name, help, apps.map { ([.init("app", $0.id)], Double(max(0, value($0.counts)))) })
        }
        func counter(_ name: StaticString, _ help: StaticString, _ value: (AppCounts) -> UInt64) {
            exposition.counter(name, help, apps.map { ([.init("app", $0.id)], value($0.counts)) })
        }
        func counter(
            _ name: StaticString, _ help: StaticString, by label: StaticString,
            _ table: (AppCounts) -> [(String, UInt64)]
        ) {
            exposition.counter(
                name, help,
                apps.flatMap { app in
                    table(app.counts).map { ([.init("app", app.id), .init(label, $0)], $1) }
                })
        }
        gauge("app_connections", "Open WebSockets, by app.", \.connections.count)
        gauge("app_subscriptions", "Subscriptions of connections, by app.", \.subscriptions.level)
        gauge("app_channels", "Ordinary channels that the hub holds, by app.", \.channels.count)
        counter("app_messages_received_total", "WebSocket messages of clients, by app.", \.messages.count)
        counter("app_channel_events_total", "Events sent to ordinary channels, by app and sender.", by: "from") {
            [("backend", $0.published.count), ("client", $0.clientEvents.count)]
        }
        counter(
            "app_channel_events_delivered_total", "Events of ordinary channels queued to subscribers, by app.",
            \.deliveries.count)
        counter("app_api_requests_total", "Calls of Pusher's HTTP API, by the app that they name.", by: "status") {
            $0.calls.series.map { ($0.value, $0.count) }
        }
        counter(
            "app_limits_reached_total", "Connections, subscribes, events and calls refused for a limit of the app.",
            by: "limit"
        ) { $0.limits.series.map { ($0.value, $0.count) } }
    }
}

/// A limit of an app, by the name of its setting.
package enum AppLimit: String, CaseIterable, Sendable {
    case connections = "limits.connections"
    /// Also counted where the hub has no more room for the app's channels.
    case channels = "limits.channels"
    case eventBytes = "limits.eventBytes"
    case channelsPerPublish = "limits.channelsPerPublish"
    case batchEvents = "limits.batchEvents"
    case publishesPerSecond = "limits.publishesPerSecond"
    case clientEventsPerSecond = "limits.clientEventsPerSecond"
    case presenceMembers = "limits.presenceMembers"
    case presenceMemberBytes = "limits.presenceMemberBytes"
    case watchlist = "limits.watchlist"
}
