import Courier
import FoundationEssentials
import HubEngine
import JSON

extension CourierConfiguration {
    /// Checks the file of certificates: without them no webhook could be delivered.
    ///
    /// - Throws: a failure that names the file.
    func checkFile() throws(Failure) {
        guard let caFile else { return }
        let text = FileManager.default.contents(atPath: caFile).map { String(decoding: $0, as: UTF8.self) }
        guard text?.contains("-----BEGIN CERTIFICATE-----") == true else {
            throw Failure(
                """
                webhooks.caFile: \(caFile) \(text == nil ? "cannot be read" : "holds no certificate"); \
                name a PEM file of certificates, or leave it out for the system's
                """, status: .configuration)
        }
    }
}

extension ApplicationSettings {
    /// Warnings about settings that have no effect, or an unexpected one.
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
                nothing is sent there: set webhooks.allowPrivate
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
    /// Most further header fields, and bytes of each value.
    private static let headersMax = 20
    private static let headerBytesMax = 4096

    /// Fields that only the hub writes.
    private static let ownFields = [
        "host", "content-type", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te",
        "trailer", "user-agent", "x-pusher-key", "x-pusher-signature",
    ]

    static let members: [SettingMember<WebhookEndpoint>] = [
        SettingMember("url", \.url, isRequired: true, .url),
        SettingMember("events", isRequired: true) { value, _, endpoint throws(BadValue) in
            let names = WebhookKinds.names.map(\.name)
            guard case .array(let array) = value, !array.isEmpty, Set(array.compactMap(\.string)).count == array.count,
                array.compactMap(\.string).allSatisfy(names.contains)
            else { throw BadValue("an array of some of \(names.joined(separator: ", "))") }
            for kind in WebhookKinds.names where array.contains(where: { $0.string == kind.name }) {
                endpoint.kinds.formUnion(kind.kind)
            }
        },
        SettingMember("batch", \.isBatched, .flag),
        SettingMember("headers") { value, _, endpoint throws(BadValue) in
            guard case .object(let fields) = value, fields.count <= headersMax,
                fields.allSatisfy({ $0.value.string != nil })
            else { throw BadValue("an object of at most \(headersMax) texts") }
            for field in fields.sorted(by: { $0.name < $1.name }) {
                let text = field.value.string ?? ""
                guard isFieldName(field.name), isFieldValue(text) else {
                    throw BadValue("fields of HTTP, values of \(headerBytesMax) bytes at most")
                }
                guard !ownFields.contains(field.name.lowercased()) else {
                    throw BadValue("fields without \(field.name), which is the hub's to write")
                }
                endpoint.headers.append(Header(field.name, text))
            }
        },
    ]

    /// A token (RFC 9110 §5.6.2).
    private static func isFieldName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 100
            && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "!#$%&'*+-.^_`|~".contains($0)) }
    }

    /// Visible characters, blanks and bytes beyond ASCII (RFC 9110 §5.5).
    private static func isFieldValue(_ text: String) -> Bool {
        text.utf8.count <= headerBytesMax && text.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }
    }
}

extension Form<String> {
    static var url: Form {
        Form("text") { text throws(BadValue) in
            guard text.utf8.count <= 2048, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
                let parts = URLComponents(string: text), ["http", "https"].contains(parts.scheme?.lowercased()),
                parts.host?.isEmpty == false, parts.port.map({ (1...65_535).contains($0) }) ?? true
            else { throw BadValue("such as https://backend.example.org/hooks, of at most 2048 bytes") }
            return text
        }
    }
}
