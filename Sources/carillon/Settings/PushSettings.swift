import Courier
import Digests
import FoundationEssentials

/// Where pushes go; empty where the hub sends none.
struct PushSettings: Sendable {
    var apnsKeyFile: String?
    var apnsKeyID: String?
    var apnsTeamID: String?
    var apnsURL: String?
    var fcmKeyFile: String?
    var fcmURL: String?
    var webhookURL: String?
    var showLabels = false

    /// - Throws: a failure that names the settings at fault. Opens no files.
    func check(_ effective: EffectiveSettings, hasDatabase: Bool) throws(Failure) {
        let account = [
            (SettingsTable[\.push.apnsKeyFile], apnsKeyFile), (SettingsTable[\.push.apnsKeyID], apnsKeyID),
            (SettingsTable[\.push.apnsTeamID], apnsTeamID),
        ]
        if let given = account.first(where: { $0.1 != nil }), let missing = account.first(where: { $0.1 == nil }) {
            throw effective.failure(
                given.0,
                """
                \(given.0.key) is given, and \(missing.0.key) is not; APNs needs the key's file, its id and the team's id \
                (\(missing.0.option), \(missing.0.environment))
                """)
        }
        let all = [
            (SettingsTable[\.push.apnsKeyFile], apnsKeyFile), (SettingsTable[\.push.fcmKeyFile], fcmKeyFile),
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
        if let apnsKeyFile, let apnsKeyID, let apnsTeamID {
            guard let key = SigningKey(pem: try Self.text(of: apnsKeyFile, SettingsTable[\.push.apnsKeyFile])),
                key.algorithm == .es256
            else {
                throw Failure(
                    "push.apnsKeyFile: \(apnsKeyFile) holds no private key of the curve P-256", status: .configuration)
            }
            configuration.apns = APNsAccount(
                key: key, keyID: apnsKeyID, teamID: apnsTeamID, origin: apnsURL.map(Self.origin))
        }
        if let fcmKeyFile {
            let text = try Self.text(of: fcmKeyFile, SettingsTable[\.push.fcmKeyFile])
            do throws(CourierError) {
                configuration.fcm = try FCMAccount(file: text, origin: fcmURL.map(Self.origin))
            } catch {
                throw Failure("push.fcmKeyFile: \(fcmKeyFile) \(error)", status: .configuration)
            }
        }
        configuration.webhookURL = webhookURL
        configuration.webhookCredentials = settings.apps.first { $0.id == settings.databaseApp }?.credentials
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

extension Form<String> {
    /// Letters and digits, as Apple's ids are; ten, says Apple.
    static var appleID: Form {
        Form("id") { text throws(BadValue) in
            guard (1...64).contains(text.utf8.count), text.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber) })
            else { throw BadValue("letters and digits, such as ABCDE12345") }
            return text
        }
    }
}
