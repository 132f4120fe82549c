import Courier
import FoundationEssentials
import HubEngine
import JSON
import Pusher

/// One application in Pusher's sense: clients send its key, and its backend signs with its secret.
struct ApplicationSettings: Sendable, Equatable {
    /// Number or short name in the paths of the HTTP API.
    var id: String
    var key: String
    var secret: String
    /// The replaced secret, valid until it is removed.
    var previousSecret: String?
    /// For people; by default the id.
    var name: String
    /// Includes the event kinds of its webhooks.
    var features = AppFeatures()
    var limits = AppLimits()
    var webhooks: [WebhookEndpoint] = []

    var credentials: AppCredentials {
        AppCredentials(key: key, secret: secret, previousSecret: previousSecret)
    }

    static let countMax = 1000

    private static let members: [SettingMember<ApplicationSettings>] = [
        SettingMember("id", \.id, isRequired: true, .name("name or number")),
        SettingMember("key", \.key, isRequired: true, .name("text")),
        SettingMember("secret", \.secret, isRequired: true, .text(bytes: 1...1024)),
        SettingMember("previousSecret", \.previousSecret, .optional(.text(bytes: 1...1024))),
        SettingMember("name", \.name, .text(bytes: 1...200)),
        SettingMember("enabled", \.features.isEnabled, .flag),
        SettingMember("clientEvents", \.features.clientEvents, .flag),
        SettingMember("subscriptionCounts", \.features.subscriptionCounts, .flag),
        SettingMember("watchlists", \.features.watchlists, .flag),
        SettingMember(
            "authorizationTimeout", \.features.authorizationDeadline, .optional(.time(.seconds(1) ... .seconds(3600)))),
        SettingMember("limits") { value, app, root throws(BadValue) in
            try value?.read(AppLimits.members, "\(app), limits", into: &root.limits)
        },
        SettingMember("webhooks") { value, app, root throws(BadValue) in
            guard case .array(let array) = value, array.count <= 20 else {
                throw BadValue("an array of at most 20 objects")
            }
            var bad = BadValues()
            for (index, value) in array.enumerated() {
                var webhook = WebhookEndpoint(url: "", kinds: [])
                let isGood = bad.collect { () throws(BadValue) in
                    try value.read(WebhookEndpoint.members, "\(app), webhooks \(index + 1)", into: &webhook)
                }
                if isGood { root.webhooks.append(webhook) }
            }
            try bad.end()
        },
    ]
}

extension AppLimits {
    fileprivate static let members: [SettingMember<AppLimits>] = [
        SettingMember("connections", \.connectionsMax, .optional(.count(1...10_000_000))),
        SettingMember("channels", \.channelsMax, .optional(.count(1...10_000_000))),
        SettingMember("eventBytes", \.eventBytesMax, .bytes(1...(1 << 20))),
        SettingMember("channelsPerPublish", \.channelsPerPublishMax, .count(1...1_000)),
        SettingMember("batchEvents", \.batchEventsMax, .count(1...1_000)),
        SettingMember("publishesPerSecond", \.publishesPerSecond, .count(0...1_000_000)),
        SettingMember("presenceMembers", \.presenceMembersMax, .count(1...100_000)),
        // A member's info is sent beside the user's id in `channel_data` or `user_data`, and a watchlist in `user_data`.
        // Longer ones are not read (`PusherLimits`).
        SettingMember("presenceMemberBytes", \.presenceMemberBytesMax, .bytes(1...(15 << 10))),
        SettingMember("clientEventsPerSecond", \.clientEventsPerSecond, .count(1...10_000)),
        SettingMember("watchlist", \.watchlistMax, .count(0...1_000)),
    ]
}

extension Form<String> {
    /// A name used in paths and before the colon of a signature.
    fileprivate static func name(_ takes: String) -> Form {
        let form = text(takes, bytes: 1...64)
        return Form(takes) { text throws(BadValue) in
            let isName = try form.parse(text).allSatisfy {
                $0.isASCII && ($0.isLetter || $0.isNumber || "-_".contains($0))
            }
            guard isName else { throw BadValue("letters, digits, - and _") }
            return text
        }
    }
}

extension Form<[ApplicationSettings]> {
    /// `[{"id":"1","key":"…","secret":"…", …}]`.
    static var applications: Form {
        Form("JSON array") { text throws(BadValue) in try ApplicationSettings.list(text) }.written { _ in nil }
    }
}

extension ApplicationSettings {
    static func list(_ text: String) throws(BadValue) -> [ApplicationSettings] {
        let form = #"a JSON array such as [{"id":"1","key":"app-key","secret":"app-secret"}]"#
        let tree: JSONTree
        do throws(JSONFault) {
            tree = try JSONFault.tree(of: Data(text.utf8))
        } catch {
            throw BadValue("\(form) (\(error))")
        }
        guard case .array(let array) = tree else { throw BadValue(form) }
        guard array.count <= countMax else { throw BadValue("at most \(countMax) applications") }
        var apps: [ApplicationSettings] = []
        var bad = BadValues()
        for (index, value) in array.enumerated() {
            var app = ApplicationSettings(id: "", key: "", secret: "", name: "")
            bad.collect { () throws(BadValue) in
                try value.read(members, "application \(index + 1)", into: &app) { $0.id.isEmpty ? nil : $0.title }
                try app.complete()
            }
            apps.append(app)
        }
        checkNames(of: apps, &bad)
        try bad.end()
        return apps
    }

    private var title: String { "application \"\(id)\"" }

    /// Sets and checks what depends on several members.
    private mutating func complete() throws(BadValue) {
        if name.isEmpty { name = id }
        // A second's worth may come at once; a batch is all or nothing.
        if limits.publishesPerSecond > 0 {
            limits.publishesBurst = max(limits.publishesPerSecond, limits.batchEventsMax)
        }
        guard Set(webhooks.map(\.url)).count == webhooks.count else {
            throw BadValue(
                "objects whose URLs differ; name the events of a URL in one", of: "\(title), \"webhooks\"")
        }
        features.webhooks = webhooks.reduce([]) { $0.union($1.kinds) }
    }

    private static func checkNames(of apps: [ApplicationSettings], _ bad: inout BadValues) {
        var ids: Set<String> = []
        var owners: [String: String] = [:]
        for app in apps {
            bad.collect { () throws(BadValue) in
                // One that is missing was told of.
                guard app.id.isEmpty || ids.insert(app.id).inserted else {
                    throw BadValue("another for each of them: two have \"\(app.id)\"", of: "the id of applications")
                }
            }
            bad.collect { () throws(BadValue) in
                guard !app.key.isEmpty, let other = owners.updateValue(app.id, forKey: app.key) else { return }
                throw BadValue(
                    "another for each of them: \"\(other)\" and \"\(app.id)\" have \"\(app.key)\"",
                    of: "the key of applications")
            }
        }
    }

    /// The list as JSON for people, without secrets, header values, and the user and query of URLs.
    @Sendable static func masked(_ text: String) -> String {
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
