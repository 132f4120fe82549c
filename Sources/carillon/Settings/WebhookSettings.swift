import Channels
import Courier
import FoundationEssentials

/// How webhooks are sent.
enum WebhookSettings {
    static let allowsPrivate = Setting(
        "webhooks.allowPrivate", takes: "true or false", fallback: "false", developmentFallback: "true",
        "Send webhooks to addresses that are not of the public internet too: this machine's, private networks'.",
        parse: SettingValues.flag)

    static let caFile = Setting(
        "webhooks.caFile", takes: "path", fallback: nil,
        "PEM file of the certificates that webhooks' receivers are judged by, in place of the system's.",
        parse: SettingValues.text)

    static let leaveGrace = Setting.time(
        "webhooks.leaveGrace", "3s", .zero ... .seconds(300),
        "Time after which webhooks tell that a user has left, or everybody, if nobody is back by then.")

    static let queueEventsMax = Setting.count(
        "webhooks.queueEvents", "10000", 1...1_000_000,
        "Events of one kind that may wait for one webhook; further ones are dropped, and counted.")

    static let queueBytesMax = Setting.bytes(
        "webhooks.queueBytes", "64MiB", (1 << 20)...(1 << 40),
        "Bytes of the events that may wait for all webhooks; beyond, the webhook that holds most of one kind loses its last."
    )

    static let rows = [allowsPrivate.row, caFile.row, leaveGrace.row, queueEventsMax.row, queueBytesMax.row]
}

extension CourierConfiguration {
    init(_ effective: EffectiveSettings) throws(Failure) {
        self.init()
        allowsPrivate = try effective.required(WebhookSettings.allowsPrivate)
        caFile = try effective.value(WebhookSettings.caFile)
        userAgent = "Carillon/\(Carillon.version)"
        limits.queueEventsMax = try effective.required(WebhookSettings.queueEventsMax)
        limits.queueBytesMax = try effective.required(WebhookSettings.queueBytesMax)
    }

    /// Looks into the file of certificates: without them no webhook would ever be delivered.
    ///
    /// - Throws: a failure that names it.
    func checkFile() throws(Failure) {
        guard let caFile else { return }
        let text = FileManager.default.contents(atPath: caFile).map { String(decoding: $0, as: UTF8.self) }
        guard text?.contains("-----BEGIN CERTIFICATE-----") == true else {
            throw Failure(
                """
                \(WebhookSettings.caFile.row.key): \(caFile) \(text == nil ? "cannot be read" : "holds no certificate"); \
                name a PEM file of certificates, or leave it out for the system's
                """, status: .configuration)
        }
    }
}

extension ApplicationSettings {
    /// What has no effect as it is set, or another than somebody may expect.
    func warnings(_ settings: CourierConfiguration) -> [String] {
        var warnings: [String] = []
        if !id.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            warnings.append(
                """
                apps: the id "\(id)" is not of digits alone, and some of Pusher's server libraries refuse it (the one for \
                Python does)
                """)
        }
        let switches: [(WebhookKinds, String, String, Bool)] = [
            (.subscriptionCount, "subscription_count", "subscriptionCounts", features.subscriptionCounts),
            (.clientEvents, "client_events", "clientEvents", features.clientEvents),
        ]
        for (kind, event, name, isOn) in switches where features.webhooks.contains(kind) && !isOn {
            warnings.append(
                "apps: application \"\(id)\" has a webhook for \(event), which never come: set its \"\(name)\": true")
        }
        for webhook in webhooks where webhook.isLiterallyPrivate && !settings.allowsPrivate {
            warnings.append(
                """
                apps: application "\(id)" has a webhook at \(webhook.origin), which is not of the public internet, so that \
                nothing is sent there: set \(WebhookSettings.allowsPrivate.row.key)
                """)
        }
        return warnings
    }
}

extension WebhookApp {
    init(_ app: ApplicationSettings) {
        self.init(id: app.id, credentials: app.credentials, endpoints: app.webhooks)
    }
}

extension WebhookEndpoint {
    /// Webhooks of one application at most.
    static let countMax = 20
    /// Bytes of a URL at most.
    private static let urlBytesMax = 2048
    /// Further header fields at most, and the bytes of each one's value.
    private static let headersMax = 20
    private static let headerBytesMax = 4096

    static let members = ["url", "events", "batch", "headers"]

    /// Fields that are the hub's to write.
    private static let ownFields = [
        "host", "content-type", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te",
        "trailer",
        "user-agent", "x-pusher-key", "x-pusher-signature",
    ]

    init(_ object: JSONMembers) throws(BadValue) {
        let url = try object.required("url", Self.urlBytesMax)
        guard Self.isURL(url) else {
            throw object.bad("url", "such as https://backend.example.org/hooks")
        }
        let events = try object.words("events", of: WebhookKinds.names.map(\.name))
        let kinds = WebhookKinds.names.filter { events.contains($0.name) }
        var headers: [Header] = []
        for (name, text) in try object.texts("headers", atMost: Self.headersMax) {
            guard Self.isFieldName(name), Self.isFieldValue(text) else {
                throw object.bad("headers", "fields of HTTP, values of \(Self.headerBytesMax) bytes at most")
            }
            guard !Self.ownFields.contains(name.lowercased()) else {
                throw object.bad("headers", "fields without \(name), which is the hub's to write")
            }
            headers.append(Header(name, text))
        }
        self.init(
            url: url, kinds: kinds.reduce([]) { $0.union($1.kind) }, isBatched: try object.flag("batch") ?? false,
            headers: headers)
    }

    private static func isURL(_ text: String) -> Bool {
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), let parts = URLComponents(string: text),
            let scheme = parts.scheme?.lowercased(), let host = parts.host
        else { return false }
        return ["http", "https"].contains(scheme) && !host.isEmpty
            && (parts.port.map { (1...65_535).contains($0) } ?? true)
    }

    /// A token (RFC 9110 §5.6.2).
    private static func isFieldName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 100
            && name.unicodeScalars.allSatisfy {
                $0.isASCII
                    && ($0.properties.isAlphabetic || ("0"..."9").contains($0)
                        || "!#$%&'*+-.^_`|~".unicodeScalars.contains($0))
            }
    }

    /// Visible characters, blanks and bytes beyond ASCII (RFC 9110 §5.5).
    private static func isFieldValue(_ text: String) -> Bool {
        text.utf8.count <= headerBytesMax && text.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }
    }
}
