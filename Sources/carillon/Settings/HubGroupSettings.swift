import FoundationEssentials
import Glibc
import HubEngine
import Reactor
import Redis
import Shared

/// How hubs share ordinary channels; nothing is shared without a URL.
struct HubGroupSettings: Sendable {
    var url: RedisURL?
    /// What all keys begin with.
    var name = "carillon"
    var caFile: String?
    var certificateFile: String?
    var keyFile: String?

    /// - Throws: a failure that names the settings at fault. Opens no files.
    func check(_ effective: EffectiveSettings) throws(Failure) {
        let (certificate, key) = (SettingsTable[\.group.certificateFile], SettingsTable[\.group.keyFile])
        let files = [
            (SettingsTable[\.group.caFile], caFile), (certificate, certificateFile), (key, keyFile),
        ].filter { $0.1 != nil }
        if let (setting, _) = files.first, url?.isSecure != true {
            throw effective.failure(
                setting, "\(setting.key) is of no use without a redis.url with TLS: rediss:// or rediss+sentinel://")
        }
        if (certificateFile == nil) != (keyFile == nil) {
            let (given, missing) = certificateFile == nil ? (key, certificate) : (certificate, key)
            throw effective.failure(given, "\(given.key) is given, and \(missing.key) is not; give that too")
        }
    }

    /// The connections; nil without a URL. Reads the files once, so that a bad one is known at once.
    ///
    /// - Throws: a configuration failure that names the setting and the file.
    func redis() throws(Failure) -> RedisSettings? {
        guard let url else { return nil }
        var redis = RedisSettings(url)
        redis.rootsFile = caFile
        if let certificateFile, let keyFile {
            redis.identity = TLSCertificateFiles(certificate: certificateFile, key: keyFile)
        }
        do throws(TLSError) {
            _ = try redis.tls()
        } catch {
            let named = [
                ("redis.caFile", caFile), ("redis.certificateFile", certificateFile), ("redis.keyFile", keyFile),
            ].filter { _, file in file.map { error.description.hasPrefix("\($0): ") } ?? false }.map(\.0)
            throw Failure(
                "\(named.isEmpty ? "redis.url" : named.joined(separator: ", ")): \(error)", status: .configuration)
        }
        return redis
    }
}

extension SharedSettings {
    /// Nil where nothing is shared.
    ///
    /// - Parameter address: where clients connect.
    /// - Throws: a configuration failure that names a setting and its file.
    init?(_ settings: Settings, at address: ListenEndpoint? = nil) throws(Failure) {
        guard let redis = try settings.group.redis() else { return nil }
        self.init(redis)
        name = settings.group.name
        about = "\(Carillon.version)  \(ProcessInfo.processInfo.hostName)  process \(getpid())"
        if let address { about += "  \(address)" }
        limits = settings.gateway.shardLimits
    }
}

extension Form<RedisURL> {
    static var redis: Form {
        Form("URL") { text throws(BadValue) in
            do throws(RedisURLError) {
                return try RedisURL(text)
            } catch {
                throw BadValue(
                    "a URL of Redis. The one that is given is not shown, for it may hold a password: \(error)",
                    of: "redis.url")
            }
        }.written { $0.summary }
    }
}

extension Form<String> {
    static var groupName: Form {
        Form("name") { text throws(BadValue) in
            let isName = text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
            guard isName, (1...64).contains(text.utf8.count) else {
                throw BadValue("a name of 1 to 64 letters, digits, - and _")
            }
            return text
        }
    }
}
