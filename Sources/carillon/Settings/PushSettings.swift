import Courier
import Digests
import FoundationEssentials

/// Where pushes go; empty where the hub sends none.
struct PushSettings: Sendable {
    var apnsKey: APNsKey?
    var apnsURL: String?
    var fcmKeyFile: String?
    var webhookURL: String?
    var webhookRequests = PushLimits.requestsOfWebhook
    var showLabels = false

    /// - Throws: a failure that names the settings at fault. Opens no files.
    func check(_ effective: EffectiveSettings, hasDatabase: Bool) throws(Failure) {
        let all = [
            (SettingsTable[\.push.apnsKey], apnsKey?.file), (SettingsTable[\.push.fcmKeyFile], fcmKeyFile),
            (SettingsTable[\.push.webhookURL], webhookURL),
        ]
        if !hasDatabase, let given = all.first(where: { $0.1 != nil }) {
            throw effective.failure(given.0, "\(given.0.key) is of no use without a database (DATABASE_URL)")
        }
    }

    /// Reads the files.
    ///
    /// - Throws: a configuration failure that names the file.
    func configuration(_ settings: Settings) throws(Failure) -> PushConfiguration {
        var configuration = PushConfiguration()
        if let apnsKey {
            guard let key = SigningKey(pem: try Self.text(of: apnsKey.file, SettingsTable[\.push.apnsKey])),
                key.algorithm == .es256
            else {
                throw Failure(
                    "push.apnsKey: \(apnsKey.file) holds no private key of the curve P-256", status: .configuration)
            }
            configuration.apns = APNsAccount(
                key: key, keyID: apnsKey.id, teamID: apnsKey.team, origin: apnsURL.map(Self.origin))
        }
        if let fcmKeyFile {
            let text = try Self.text(of: fcmKeyFile, SettingsTable[\.push.fcmKeyFile])
            do throws(CourierError) {
                configuration.fcm = try FCMAccount(file: text)
            } catch {
                throw Failure("push.fcmKeyFile: \(fcmKeyFile) \(error)", status: .configuration)
            }
        }
        configuration.webhookURL = webhookURL
        configuration.webhookRequestsMax = webhookRequests
        configuration.webhookCredentials = settings.apps.first { $0.id == settings.database.app }?.credentials
        configuration.caFile = settings.webhooks.caFile
        configuration.userAgent = settings.webhooks.userAgent
        return configuration
    }

    private static func text(of path: String, _ setting: Setting) throws(Failure) -> String {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Failure("\(setting.key): \(path) cannot be read", status: .configuration)
        }
        return String(decoding: data, as: UTF8.self)
    }

    /// Without the slashes at its end: paths are appended.
    private static func origin(_ url: String) -> String {
        var url = url
        while url.hasSuffix("/") { url.removeLast() }
        return url
    }
}

/// A key for APNs: its id, the id of the developer team that it belongs to, and its file.
struct APNsKey: Sendable {
    var id: String
    var team: String
    var file: String
}

extension Form<APNsKey> {
    /// `KEYID:TEAMID:FILE`. The ids are letters and digits; ten, says Apple.
    static var apnsKey: Form {
        Form("KEYID:TEAMID:FILE") { text throws(BadValue) in
            let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 3, !parts[2].isEmpty,
                parts[..<2].allSatisfy({ id in
                    (1...64).contains(id.utf8.count) && id.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
                })
            else { throw BadValue("KEYID:TEAMID:FILE, such as ABCDE12345:TEAM123456:/etc/carillon/AuthKey.p8") }
            return APNsKey(id: parts[0], team: parts[1], file: parts[2])
        }
    }
}
