import FoundationEssentials
import Glibc
import Reactor
import Redis

/// The hubs beside the first one of `carillon dev --hubs`, and the Redis by which they share ordinary channels.
final class DevelopmentHubs {
    private let folder: DevelopmentFolder
    private var redis: Companion?
    private var hubs: [Companion] = []

    static let countMax = 9

    init(in folder: DevelopmentFolder) { self.folder = folder }

    /// Starts Redis, if this machine has it: its URL. Only this user's processes know its password.
    func startRedis() throws(Failure) -> RedisURL? {
        guard let program = Self.program(["redis-server", "valkey-server"]) else { return nil }
        let password = (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }.joined()
        // Another program may take the port between its choice and the start.
        for attempt in 1... {
            let port = try Self.freePort()
            let configuration = """
                bind 127.0.0.1
                port \(port)
                requirepass \(password)
                dir \(Self.quoted(folder.path))
                save ""
                appendonly no
                maxmemory-policy noeviction
                client-output-buffer-limit pubsub 256mb 64mb 60

                """
            let file = folder.path + "/redis.conf"
            try Descriptor.replace(file, with: configuration)
            let server = try Companion("Redis", [program, file], log: folder.path + "/redis.log")
            do throws(Failure) {
                _ = try server.wait(seconds: 20) { $0.contains("Ready to accept connections") ? () : nil }
            } catch {
                server.stop()
                guard attempt < 3 else { throw error }
                continue
            }
            redis = server
            let url = "redis://:\(password)@127.0.0.1:\(port)"
            try folder.writeRedisURL(url)
            do {
                return try RedisURL(url)
            } catch {
                throw Failure("\(error)")
            }
        }
        return nil
    }

    /// Starts the others. Each listens one port further than the one before it.
    ///
    /// - Parameter settings: those of the first one.
    func start(_ count: Int, as settings: Settings, _ effective: EffectiveSettings) throws(Failure) {
        guard count > 0, let program = Self.ownProgram else { return }
        for number in 2..<2 + count {
            hubs.append(
                try Companion(
                    "hub \(number)", [program, "serve"],
                    environment: Self.environment(number, settings, effective),
                    log: "\(folder.path)/hub-\(number).log", tells: true))
        }
    }

    /// Waits until they are ready: their names and addresses.
    ///
    /// - Parameter stop: ends the waiting; then they are fewer.
    func addresses(unless stop: Latch) throws(Failure) -> [(name: String, address: String, log: String)] {
        var found: [(String, String, String)] = []
        for hub in hubs {
            guard let address = try hub.wait(unless: stop, for: { LogEntry($0)?.address }),
                try hub.wait(unless: stop, for: { LogEntry($0)?.message == "ready" ? () : nil }) != nil
            else { return found }
            found.append((hub.name, address, hub.log))
        }
        return found
    }

    /// Ends all of them.
    func stop() {
        for hub in hubs { hub.interrupt() }
        for hub in hubs { hub.stop() }
        redis?.stop()
    }

    // MARK: Settings

    /// The settings of the first one, but for those that only one hub may have.
    private static func environment(
        _ number: Int, _ settings: Settings, _ effective: EffectiveSettings
    ) throws(Failure) -> [String: String] {
        var texts = effective.entries.mapValues(\.text)
        for key in ["tls.certificateFiles", "tls.keyFiles", "tls.ticketKeysFile", "control.socket"] { texts[key] = nil }
        texts["listen"] = try address(number, settings).description
        texts["operations.listen"] = "127.0.0.1:0"
        texts["databaseURL"] = settings.database.url
        texts["jwt.secret"] = settings.jwt.secret
        // The lines that are waited for.
        texts["log.format"] = "json"
        if [.notice, .warning, .error, .critical].contains(settings.log.level) { texts["log.level"] = "info" }
        texts["redis.url"] = settings.group.url.flatMap { url in
            effective.entries["redis.url"]?.text ?? Self.text(url)
        }
        var environment: [String: String] = [:]
        for setting in SettingsTable.all {
            if let text = texts[setting.key] { environment[setting.environment] = text }
        }
        return environment
    }

    /// Of that of `startRedis`, with its password.
    private static func text(_ url: RedisURL) -> String? {
        guard case .server(let place) = url.way, let credentials = url.credentials else { return nil }
        return "redis://:\(String(decoding: credentials.password, as: UTF8.self))@\(place)"
    }

    /// Where hub `number` listens: the first one is 1.
    static func address(_ number: Int, _ settings: Settings) throws(Failure) -> ListenAddress {
        guard let first = settings.listen.first(where: { $0.address != nil && !$0.usesTLS })?.address else {
            throw Failure("listen: carillon dev needs a TCP address without TLS", status: .configuration)
        }
        let port = first.port == 0 ? 0 : Int(first.port) + number - 1
        guard let port = UInt16(exactly: port) else {
            throw Failure("listen: there are not \(number) ports from \(first.port) on", status: .configuration)
        }
        return ListenAddress(host: first.host, port: port)
    }

    /// As Redis's configuration wants a text with blanks.
    private static func quoted(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }

    // MARK: Programs

    private static func program(_ names: [String]) -> String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
        return names.lazy.flatMap { name in folders.lazy.map { "\($0)/\(name)" } }.first { access($0, X_OK) == 0 }
    }

    private static var ownProgram: String? {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &path, path.count)
        return count > 0 ? String(decoding: path[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
    }

    private static func freePort() throws(Failure) -> UInt16 {
        do throws(ListenError) {
            guard case .tcp(_, let port, _) = try ListeningSocket(host: "127.0.0.1", port: 0).endpoint else { return 0 }
            return port
        } catch {
            throw Failure("\(error)")
        }
    }
}

/// A line of a hub's log.
private struct LogEntry: Decodable {
    let message: String
    /// Where it listens.
    let address: String?

    init?(_ line: String) {
        guard let entry = try? JSONDecoder().decode(Self.self, from: Data(line.utf8)) else { return nil }
        self = entry
    }
}
