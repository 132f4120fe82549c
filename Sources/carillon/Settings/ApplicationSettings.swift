import Channels
import Courier
import FoundationEssentials
import JSON
import Pusher

/// One application as Pusher knows it: its clients name the key, its backend signs with the secret.
struct ApplicationSettings: Sendable, Equatable {
    /// Number or short name in the paths of the HTTP API.
    let id: String
    let key: String
    let secret: String
    /// What the secret takes the place of; good until it is left out.
    var previousSecret: String?
    /// For people; the id where none was given.
    let name: String
    /// With the kinds that its webhooks want.
    var features = AppFeatures()
    var limits = AppLimits()
    var webhooks: [WebhookEndpoint] = []

    /// What the secrets make.
    var credentials: AppCredentials {
        AppCredentials(key: key, secret: secret, previousSecret: previousSecret)
    }
}

extension ApplicationSettings {
    /// Applications one hub serves at most.
    static let countMax = 1000
    /// Bytes of a secret at most.
    private static let secretBytesMax = 1024

    /// Reads `[{"id":"1","key":"…","secret":"…", …}]`; `members` are all that an application may have. An id may be a number.
    static let list: @Sendable (String) throws(BadValue) -> [ApplicationSettings] = { text throws(BadValue) in
        let form = #"a JSON array such as [{"id":"1","key":"app-key","secret":"app-secret"}]"#
        if let fault = JSONFault(in: Data(text.utf8)) { throw BadValue("\(form) (not JSON: \(fault))") }
        guard let tree = try? JSONTree(text), case .array(let array) = tree else { throw BadValue(form) }
        guard array.count <= countMax else { throw BadValue("at most \(countMax) applications") }
        var apps: [ApplicationSettings] = []
        for (index, value) in array.enumerated() {
            apps.append(try ApplicationSettings(JSONMembers(value, "application \(index + 1)", allowed: members)))
        }
        try checkNames(of: apps)
        return apps
    }

    private static func checkNames(of apps: [ApplicationSettings]) throws(BadValue) {
        var ids: Set<String> = []
        var owners: [String: String] = [:]
        for app in apps {
            guard ids.insert(app.id).inserted else {
                throw BadValue("another for each of them: two have \"\(app.id)\"", of: "the id of applications")
            }
            if let other = owners.updateValue(app.id, forKey: app.key) {
                throw BadValue(
                    "another for each of them: \"\(other)\" and \"\(app.id)\" have \"\(app.key)\"",
                    of: "the key of applications")
            }
        }
    }

    private static let members = [
        "id", "key", "secret", "previousSecret", "name", "enabled", "clientEvents", "subscriptionCounts", "watchlists",
        "authorizationTimeout", "limits", "webhooks",
    ]

    private init(_ object: JSONMembers) throws(BadValue) {
        id = try object.name("id", orNumber: true)
        let object = object.called("application \"\(id)\"")
        key = try object.name("key")
        secret = try object.required("secret", Self.secretBytesMax)
        previousSecret = try object.text("previousSecret", 1...Self.secretBytesMax)
        name = try object.text("name", 1...200) ?? id
        if let given = try object.flag("enabled") { features.isEnabled = given }
        if let given = try object.flag("clientEvents") { features.clientEvents = given }
        if let given = try object.flag("subscriptionCounts") { features.subscriptionCounts = given }
        if let given = try object.flag("watchlists") { features.watchlists = given }
        features.authorizationDeadline = try object.duration("authorizationTimeout", .seconds(1) ... .seconds(3600))
        if let given = try object.object("limits", allowed: AppLimits.members) { limits = try AppLimits(given) }
        for webhook in try object.objects(
            "webhooks", atMost: WebhookEndpoint.countMax, allowed: WebhookEndpoint.members)
        {
            webhooks.append(try WebhookEndpoint(webhook))
        }
        guard Set(webhooks.map(\.url)).count == webhooks.count else {
            throw object.bad("webhooks", "objects whose URLs differ; name the events of a URL in one")
        }
        features.webhooks = webhooks.reduce([]) { $0.union($1.kinds) }
    }
}

extension AppLimits {
    fileprivate static let members = [
        "connections", "channels", "eventBytes", "channelsPerPublish", "batchEvents", "publishesPerSecond",
        "publishesBurst",
        "presenceMembers", "presenceMemberBytes", "clientEventsPerSecond", "watchlist",
    ]

    fileprivate init(_ object: JSONMembers) throws(BadValue) {
        self.init()
        connectionsMax = try object.count("connections", 1...10_000_000)
        channelsMax = try object.count("channels", 1...10_000_000)
        if let given = try object.bytes("eventBytes", 1...(1 << 20)) { eventBytesMax = given }
        if let given = try object.count("channelsPerPublish", 1...1_000) { channelsPerPublishMax = given }
        if let given = try object.count("batchEvents", 1...1_000) { batchEventsMax = given }
        if let given = try object.count("publishesPerSecond", 0...1_000_000) { publishesPerSecond = given }
        // Without a burst of its own, what a second allows may come at once; a batch is all or nothing.
        publishesBurst = try object.count("publishesBurst", 1...1_000_000) ?? max(publishesPerSecond, batchEventsMax)
        guard publishesBurst >= batchEventsMax else {
            throw object.bad("publishesBurst", "\(batchEventsMax) at least, that one batch passes (batchEvents)")
        }
        if let given = try object.count("presenceMembers", 1...100_000) { presenceMembersMax = given }
        // Beside the user's id it stands in `channel_data` or `user_data`, and whom a user watches in `user_data`: longer ones
        // of these are not read (`PusherLimits`).
        if let given = try object.bytes("presenceMemberBytes", 1...(15 << 10)) { presenceMemberBytesMax = given }
        if let given = try object.count("clientEventsPerSecond", 1...10_000) { clientEventsPerSecond = given }
        if let given = try object.count("watchlist", 0...1_000) { watchlistMax = given }
    }
}

extension ApplicationSettings {
    /// The list as JSON for people: without secrets, without the values of header fields, and of URLs without user and query.
    static func masked(_ text: String) -> String {
        guard (try? list(text)) != nil, let value = try? JSONTree(text) else { return SettingMask.hidden }
        return masked(value, under: "").canonicalText
    }

    private static func masked(_ value: JSONTree, under name: String) -> JSONTree {
        switch (value, name) {
        case (_, "secret"), (_, "previousSecret"): return .string(SettingMask.hidden)
        case (.object(let fields), "headers"):
            return .object(fields.map { JSONTree.Member($0.name, .string(SettingMask.hidden)) })
        case (.string(let url), "url"): return .string(SettingMask.withoutCredentials(url: url))
        case (.object(let members), _):
            return .object(members.map { JSONTree.Member($0.name, masked($0.value, under: $0.name)) })
        case (.array(let elements), _): return .array(elements.map { masked($0, under: name) })
        default: return value
        }
    }
}
