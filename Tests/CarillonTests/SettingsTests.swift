import Clock
import Feed
import Foundation
import Gateway
import Glibc
import HTTP
import HubEngine
import Jobs
import Reactor
import Store
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct SettingsTests {
    private let apps = #"[{"id":"1","key":"k","secret":"s"}]"#

    /// Tests run with the targets' own defaults, hubs with the table's.
    @Test func defaultsAgreeWithTheTargetsLimits() throws {
        let gateway = GatewayConfiguration(try Settings(effectiveSettings(profile: .development)))
        let limits = GatewayLimits()
        #expect(gateway.limits.messageBytesMax == limits.messageBytesMax)
        #expect(gateway.limits.sendQueueBytesMax == limits.sendQueueBytesMax)
        #expect(gateway.limits.sendQueuesBytesMax == limits.sendQueuesBytesMax)
        #expect(gateway.limits.unfinishedBytesMax == limits.unfinishedBytesMax)
        #expect(gateway.limits.pullQueueBytesMax == limits.pullQueueBytesMax)
        #expect(gateway.timeouts.stalled == GatewayTimeouts().stalled)
        #expect(gateway.channelLimits.streams == StreamLimits())
        #expect(gateway.channelLimits.shards == ShardLimits())
        let admission = AdmissionLimits()
        #expect(gateway.admission.connectionsMax == admission.connectionsMax)
        #expect(gateway.admission.connectionsPerAddressMax == admission.connectionsPerAddressMax)
        #expect(gateway.admission.addressConnectsPerSecond == admission.addressConnectsPerSecond)
        #expect(gateway.admission.addressConnectsBurst == admission.addressConnectsBurst)
        #expect(gateway.channelLimits.subscriptionsPerSessionMax == ChannelLimits().subscriptionsPerSessionMax)
        #expect(gateway.channelLimits.parkedPerSessionMax == ChannelLimits().parkedPerSessionMax)
        #expect(gateway.httpLimits == GatewayConfiguration().httpLimits)
        #expect(gateway.limits.messageFragmentsMax == limits.messageFragmentsMax)
        #expect(gateway.limits.messagesPerSecond == limits.messagesPerSecond)
        #expect(gateway.limits.messagesBurst == limits.messagesBurst)
        #expect(gateway.limits.controlFramesPerSecond == limits.controlFramesPerSecond)
        #expect(gateway.limits.controlFramesBurst == limits.controlFramesBurst)
        #expect(gateway.limits.requestBytesPerSecondMin == limits.requestBytesPerSecondMin)
        #expect(gateway.timeouts.message == GatewayTimeouts().message)
        #expect(gateway.timeouts.unacked == GatewayTimeouts().unacked)
        #expect(gateway.timeouts.activity == GatewayTimeouts().activity)
        #expect(gateway.timeouts.pong == GatewayTimeouts().pong)
        #expect(gateway.timeouts.handshake == GatewayTimeouts().handshake)
        #expect(gateway.compression == CompressionSettings())
        let feed = FeedConfiguration(
            try Settings(effectiveSettings(profile: .development)), "dbname=x", try .embedded())
        let own = FeedConfiguration(connectionString: "")
        #expect(feed.pollInterval == own.pollInterval && feed.positionCheckInterval == own.positionCheckInterval)
    }

    /// A hub on an older schema would say that it is ready, and some of its functions and jobs would fail.
    @Test func theNewestMigrationIsNeeded() throws {
        let settings = try Settings(effectiveSettings(profile: .development))
        let files = try FileManager.default.contentsOfDirectory(
            atPath: Page.root.appendingPathComponent("sql/migrations").path)
        let newest = try #require(files.compactMap { Int64($0.prefix(4)) }.max())
        #expect(FeedConfiguration(settings, "dbname=x", try .embedded()).schemaVersion == newest)
    }

    @Test func compressionAsItIsSet() throws {
        let base = ["--apps", apps, "--websocket-compression"]
        #expect(GatewayConfiguration(try Settings(effectiveSettings(base + ["false"]))).compression == nil)
        for on in [["true"], []] {
            #expect(
                GatewayConfiguration(try Settings(effectiveSettings(base + on))).compression == CompressionSettings())
        }
        #expect(refusedSettings(base + ["on"])?.description.contains("true or false") == true)
    }

    @Test func storeDefaultsAgreeWithTheTargetsOwn() throws {
        let settings = try Settings(effectiveSettings(profile: .development))
        let store = StoreConfiguration(settings, "host=h")
        let own = StoreConfiguration(connectionString: "host=h")
        #expect(store.connections == own.connections)
        #expect(store.queryConnections == own.queryConnections)
        #expect(JobsConfiguration(settings, "host=h").retainDays == JobsConfiguration(connectionString: "").retainDays)
        #expect(store.userRate == own.userRate)
        #expect(store.deviceRate == own.deviceRate)
        #expect(refusedSettings(["--store-connections", "65"]) != nil)
        #expect(refusedSettings(["--store-connections", "0"]) != nil)
    }

    /// The burst follows from the rate, and always allows one message of the largest size.
    @Test(arguments: [(0, 0), (1, 1), (5, 3), (100, 50), (10_000, 5_000)])
    func aRateIsOneSetting(_ rate: Int, _ ofDevice: Int) throws {
        let names = ["--limits-messages-per-second", "--limits-connects-per-second", "--limits-actions-per-second"]
        let settings = try Settings(effectiveSettings(names.flatMap { [$0, "\(rate)"] }, profile: .development))
        let limits = settings.gateway.limits
        #expect(limits.messagesPerSecond == rate && limits.messagesBurst == max(10 * rate, 17))
        let admission = settings.gateway.admission
        #expect(admission.addressConnectsPerSecond == rate && admission.addressConnectsBurst == 20 * rate)
        #expect(settings.store.userRate == Rate(perSecond: rate, burst: 10 * rate))
        #expect(settings.store.deviceRate == Rate(perSecond: ofDevice, burst: 10 * ofDevice))
        #expect(settings.store.userRate.isBounded == (rate > 0) && settings.store.deviceRate.isBounded == (rate > 0))
    }

    @Test(arguments: [(1, 1), (2, 1), (4, 2), (9, 4), (64, 16)])
    func snapshotsHaveHalfAsManyConnections(_ given: Int, _ reading: Int) throws {
        let settings = try Settings(effectiveSettings(["--store-connections", "\(given)"], profile: .development))
        #expect(settings.store.connections == given && settings.store.queryConnections == reading)
    }

    @Test func aTimeoutIsOfAllThatItStandsFor() throws {
        let given = try effectiveSettings(
            ["--handshake-timeout", "3s", "--pong-timeout", "4s", "--presence-leave-grace", "5s"]
                + ["--feed-poll-interval", "2s"], profile: .development)
        let settings = try Settings(given)
        let timeouts = settings.gateway.timeouts
        let shards = settings.gateway.channelLimits.shards
        #expect(shards.leaveGrace == .seconds(5) && shards.webhookPause == .seconds(5))
        #expect(settings.feed.heartbeatInterval == .seconds(14) && settings.feed.heartbeatTimeout == .seconds(7))
        #expect(settings.feed.positionCheckInterval == .seconds(40))
        #expect(timeouts.handshake == .seconds(3) && timeouts.tlsHandshake == .seconds(3))
        #expect(timeouts.unacked == .seconds(8) && timeouts.stalled == .seconds(8))
        let quick = try Settings(effectiveSettings(["--feed-poll-interval", "100ms"], profile: .development)).feed
        #expect(quick.positionCheckInterval == .seconds(2) && quick.heartbeatInterval == .seconds(10))
    }

    /// A token that is still accepted must not belong to a connection that ends at once.
    @Test func anIdentityLastsAsLongAsItsToken() throws {
        let settings = try Settings(effectiveSettings(profile: .development))
        #expect(settings.gateway.timeouts.identity.grace > settings.jwt.leeway)
    }

    @Test func commandLineBeatsEnvironmentBeatsFileBeatsDefault() throws {
        try withSettingsFile(#"{"listen": "127.0.0.3:3", "loops": 3, "jwt": {"issuer": "file"}, "pongTimeout": 7}"#) {
            path in
            let effective = try effectiveSettings(
                ["--listen", "127.0.0.1:1", "--config=\(path)"],
                environment: ["CARILLON_LISTEN": "127.0.0.2:2", "CARILLON_LOOPS": "2", "CARILLON_CONFIG": "/nowhere"])
            #expect(effective.values.listen == [.address(ListenAddress(host: "127.0.0.1", port: 1))])
            #expect(effective.source(of: SettingsTable[\.listen]) == "command line --listen")
            #expect(effective.values.gateway.loops == 2)
            #expect(effective.source(of: SettingsTable[\.gateway.loops]) == "environment CARILLON_LOOPS")
            #expect(effective.values.jwt.issuer == "file")
            #expect(effective.source(of: SettingsTable[\.jwt.issuer]) == "file \(path) line 1 jwt.issuer")
            #expect(effective.values.gateway.timeouts.pong == .seconds(7))
            #expect(effective.values.gateway.timeouts.activity == .seconds(120))
            #expect(effective.source(of: SettingsTable[\.gateway.timeouts.activity]) == "default")
        }
    }

    @Test func operationsMayBeOffAndAreApartInDevelopment() throws {
        #expect(try Settings(effectiveSettings(profile: .development)).operations == ListenAddress("127.0.0.1:0"))
        let serve = try effectiveSettings(["--apps", apps])
        #expect(try Settings(serve).operations == ListenAddress("127.0.0.1:9601"))
        #expect(try Settings(effectiveSettings(["--apps", apps, "--operations-listen", "off"])).operations == nil)
        #expect(
            refusedSettings(["--operations-listen", "on"])?.description.contains("must be off, or HOST:PORT") == true)
    }

    @Test func databaseURLHasItsUsualName() throws {
        let effective = try effectiveSettings(environment: [
            "DATABASE_URL": "postgresql://u@h/d", "CARILLON_APPS": apps,
        ])
        let settings = try Settings(effective)
        #expect(settings.database.url == "postgresql://u@h/d")
        #expect(settings.database.app == "1")
    }

    @Test func fileMayHoldAppsAndOriginsAsJSON() throws {
        let text = """
            {"apps": [{"id": 7, "key": "k", "secret": "s", "name": "Seven"}],
             "allowedOrigins": ["https://A.example.org", "http://localhost:3000"], "api": {"refuseReplays": true}}
            """
        try withSettingsFile(text) { path in
            let settings = try Settings(effectiveSettings(["--config", path]))
            #expect(settings.apps == [ApplicationSettings(id: "7", key: "k", secret: "s", name: "Seven")])
            #expect(settings.gateway.origins == .only(["https://a.example.org", "http://localhost:3000"]))
            #expect(settings.api.refusesReplays)
        }
    }

    @Test func developmentHasAnApplicationAndServeHasNone() throws {
        let settings = try Settings(effectiveSettings(profile: .development))
        #expect(settings.apps.map(\.id) == ["1"])
        #expect(settings.apps.map(\.key) == ["carillon-key"])
        #expect(settings.apps.map(\.secret) == ["carillon-secret"])
        #expect(settings.gateway.origins == .any)
        let serve = #expect(throws: Failure.self) { try Settings(effectiveSettings()) }
        #expect(serve?.description.contains("CARILLON_APPS") == true)
        #expect(serve?.status == .configuration)
    }

    @Test(
        arguments: [
            ("127.0.0.1:7", "127.0.0.1:7", true), ("0.0.0.0:7", "127.0.0.1:7", true), ("10.0.0.1:7", "*:7", true),
            ("127.0.0.1:7", "[::]:7", true), ("127.0.0.1:7", "127.0.0.1:8", false),
            ("10.0.0.1:7", "127.0.0.1:7", false), ("127.0.0.1:0", "127.0.0.1:0", false), ("127.0.0.1:7", "off", false),
        ])
    func theOperationsListenerHasAPortOfItsOwn(_ listen: String, _ operations: String, _ isRefused: Bool) throws {
        let given = try effectiveSettings(
            ["--listen", listen, "--operations-listen", operations], profile: .development)
        guard isRefused else {
            _ = try Settings(given)
            return
        }
        let failure = #expect(throws: Failure.self) { try Settings(given) }
        #expect(failure?.description.hasPrefix("command line --operations-listen: operations.listen ") == true)
        #expect(failure?.status == .configuration)
    }

    @Test func severalListenersAreNamedInOneList() throws {
        let settings = try Settings(
            effectiveSettings(
                ["--listen", "0.0.0.0:7, [::]:7,[::]:8,unix:/run/hub.sock", "--unix-socket-mode", "0600"],
                profile: .development))
        #expect(
            settings.listenEndpoints == [
                .tcp(host: "0.0.0.0", port: 7), .tcp(host: "::", port: 7, isIPv6Only: true),
                .tcp(host: "::", port: 8), .unix(path: "/run/hub.sock", mode: 0o600),
            ])
        #expect(GatewayConfiguration(settings).listeners.map(\.endpoint) == settings.listenEndpoints)
        try withSettingsFile(#"{"listen": ["127.0.0.1:0", "127.0.0.1:0", "unix:/a"]}"#) { path in
            let settings = try Settings(effectiveSettings(["--config", path], profile: .development))
            #expect(settings.listenEndpoints.last == .unix(path: "/a", mode: 0o660))
            #expect(settings.listen.count == 3)
        }
    }

    @Test(
        arguments: [
            ("", "HOST:PORT"), ("127.0.0.1:1,", "HOST:PORT"), ("unix:hub.sock", "absolute path"),
            ("unix:/" + String(repeating: "x", count: 107), "107 bytes"), ("unix:/run/", "absolute path"),
            (String(repeating: "127.0.0.1:0,", count: 16) + "127.0.0.1:0", "at most 16 addresses"),
        ])
    func badListenersAreRefused(_ text: String, _ words: String) throws {
        let failure = try #require(refusedSettings(["--listen=" + text]))
        #expect(failure.status == .configuration)
        #expect(failure.description.contains(words), "\(failure)")
    }

    @Test(
        arguments: [
            "127.0.0.1:7,127.0.0.1:7", "127.0.0.1:7,0.0.0.0:7", "[::1]:7,[::]:7", "unix:/a,127.0.0.1:7,unix:/a",
        ])
    func onePlaceIsNamedOnce(_ text: String) throws {
        let given = try effectiveSettings(["--listen", text], profile: .development)
        let failure = #expect(throws: Failure.self) { try Settings(given) }
        #expect(failure?.description.hasSuffix("which are one address") == true)
        #expect(failure?.status == .configuration)
    }

    @Test func trustedProxiesAreRead() throws {
        let given = "10.0.0.0/8, fd00::/8,unix"
        let settings = try Settings(effectiveSettings(["--trusted-proxies", given], profile: .development))
        let peers = GatewayConfiguration(settings).trustedPeers
        for address in ["10.1.2.3", "fd00::1"] { #expect(peers.contains(try #require(PeerAddress(address)))) }
        for address in ["11.1.2.3", "127.0.0.1"] { #expect(!peers.contains(try #require(PeerAddress(address)))) }
        #expect(peers.contains(.unix))
        #expect(try Settings(effectiveSettings(profile: .development)).gateway.trustedPeers == TrustedPeers())
        for bad in ["proxy.example", "10.0.0.0/40", "*"] {
            #expect(
                refusedSettings(["--trusted-proxies", bad])?.description.contains("trustedProxies, which must be")
                    == true)
        }
        let many = Array(repeating: "10.0.0.1", count: TrustedPeers.rangesMax).joined(separator: ",")
        #expect(refusedSettings(["--trusted-proxies", many]) == nil)
        #expect(refusedSettings(["--trusted-proxies", many + ",10.0.0.1"]) != nil)
    }

    @Test(arguments: ["0660", "600", "0777"]) func modesAreOctal(_ text: String) throws {
        let settings = try Settings(effectiveSettings(["--unix-socket-mode", text], profile: .development))
        #expect(settings.unixSockets.mode == UInt32(text, radix: 8))
        for bad in ["0400", "1777", "rw", "8", ""] { #expect(refusedSettings(["--unix-socket-mode=" + bad]) != nil) }
    }

    /// Valid, but not accepted by all of Pusher's libraries.
    @Test func idsThatAreNoNumbersAreWarnedOf() throws {
        let apps = #"[{"id":"12","key":"a","secret":"s"},{"id":"doses-2","key":"b","secret":"s"}]"#
        let settings = try Settings(effectiveSettings(environment: ["CARILLON_APPS": apps]))
        #expect(settings.warnings.count == 1 && settings.warnings[0].contains("\"doses-2\""))
        #expect(try Settings(effectiveSettings(profile: .development)).warnings.isEmpty)
    }

    @Test func whatHasNoEffectIsWarnedOf() throws {
        func warnings(_ members: String, _ arguments: [String] = []) throws -> [String] {
            let apps = #"[{"id":"1","key":"a","secret":"s",\#(members)}]"#
            return try Settings(effectiveSettings(arguments, environment: ["CARILLON_APPS": apps])).warnings
        }
        let hooks = #""webhooks":[{"url":"https://u:pw@h.example/x","events":["subscription_count","client_events"]}]"#
        let silent = try warnings(hooks)
        #expect(silent.count == 2)
        #expect(silent[0].contains("subscription_count") && silent[0].contains("\"subscriptionCounts\": true"))
        #expect(silent[1].contains("client_events") && silent[1].contains("\"clientEvents\": true"))
        #expect(try warnings(#""subscriptionCounts":true,"clientEvents":true,"# + hooks).isEmpty)
        let near = #""webhooks":[{"url":"http://u:pw@10.0.0.5/x","events":["presence"]}]"#
        let refused = try warnings(near)
        #expect(
            refused.count == 1 && refused[0].contains("http://10.0.0.5,")
                && refused[0].contains("webhooks.allowPrivate"))
        #expect(try warnings(near, ["--webhooks-allow-private"]).isEmpty)
        let ownerless = try warnings(#""name":"n""#, ["--database-app", "1"])
        #expect(
            ownerless.count == 1 && ownerless[0].hasPrefix("command line --database-app: databaseApp has no effect"))
    }

    /// It may be intended, and would otherwise go unnoticed.
    @Test func aDatabaseWithoutKeysOfTokensIsNoticed() throws {
        func notices(_ arguments: [String]) throws -> [String] {
            try Settings(effectiveSettings(arguments, environment: ["CARILLON_APPS": apps])).notices
        }
        let database = ["--database-url", "postgresql://h/d"]
        #expect(
            try notices(database)
                == ["no jwt.keysFile: tokens are refused; users sign in by your backend's signature alone"])
        #expect(try notices(database + ["--jwt-keys-file", "/keys.json"]).isEmpty)
        #expect(try notices(database + ["--jwt-secret", String(repeating: "x", count: 32)]).isEmpty)
        #expect(try notices([]).isEmpty)
        let check = try RunningCommand(
            ["check-config"] + database, isMixed: true, environment: ["CARILLON_APPS": apps])
        #expect(check.line(containing: "notice: no jwt.keysFile: tokens are refused") != nil)
        #expect(check.end() == 0)
    }

    @Test func anEmptyDatabaseURLIsNone() throws {
        let environment = ["CARILLON_APPS": apps, "DATABASE_URL": ""]
        #expect(try Settings(effectiveSettings(environment: environment)).database.url == nil)
        try withSettingsFile(#"{"databaseURL": "postgresql://h/d"}"#) { path in
            let settings = try Settings(effectiveSettings(["--config", path], environment: environment))
            #expect(settings.database.url == "postgresql://h/d")
        }
    }

    @Test(arguments: [
        (#"{"apps": [{"id": "1", "key": "k", "secret": "s"}]}"#, true),
        (#"{"databaseURL": "postgresql://u:pw@h/d"}"#, true),
        (#"{"jwt": {"secret": "0123456789012345678901234567890123"}}"#, true),
        (#"{"databaseURL": "postgresql://u@h/d", "loops": 2}"#, false), ("{}", false),
    ])
    func aFileWithSecretsIsForItsOwnerAndGroup(_ text: String, _ hasSecrets: Bool) throws {
        try withSettingsFile(text) { path in
            #expect(chmod(path, 0o640) == 0)
            #expect(try effectiveSettings(["--config", path]).warnings.isEmpty)
            #expect(chmod(path, 0o644) == 0)
            let warnings = try effectiveSettings(["--config", path]).warnings
            #expect(warnings.count == (hasSecrets ? 1 : 0))
            for warning in warnings { #expect(warning.contains(path) && warning.contains("chmod o-r")) }
        }
    }

    @Test func aSlowClientIsFedByPagesFromAnEighthOfItsQueueOn() throws {
        let settings = try Settings(
            effectiveSettings(["--limits-send-queue-bytes", "2MiB"], profile: .development))
        #expect(settings.gateway.limits.pullQueueBytesMax == 256 << 10)
    }

    @Test func aKeyForAPNsIsOneSetting() throws {
        let options = ["--database-url", "postgresql://h/d", "--push-apns-key"]
        let settings = try Settings(
            effectiveSettings(options + ["KEY1234567:TEAM123456:/a:b/AuthKey.p8"], profile: .development))
        let key = try #require(settings.push.apnsKey)
        #expect(key.id == "KEY1234567" && key.team == "TEAM123456" && key.file == "/a:b/AuthKey.p8")
        for bad in ["/AuthKey.p8", "KEY:TEAM:", ":TEAM:/a", "KEY::/a", "K-Y:TEAM:/a", ""] {
            #expect(refusedSettings(["--push-apns-key=" + bad])?.description.contains("KEYID:TEAMID:FILE") == true)
        }
        let alone = try effectiveSettings(["--push-apns-key", "K:T:/a"], environment: ["CARILLON_APPS": apps])
        let failure = #expect(throws: Failure.self) { try Settings(alone) }
        #expect(failure?.description.contains("push.apnsKey is of no use without a database") == true)
    }

    /// Clients may use up to eight seconds; webhooks get the rest.
    @Test(arguments: [(0, 8_000), (1_500, 6_500), (6_000, 2_000), (60_000, 2_000)])
    func webhooksHaveWhatIsLeftOfTheEnd(_ gone: Int, _ left: Int) {
        let start = Instant(nanoseconds: 1_000_000_000)
        let now = start.advanced(by: .milliseconds(gone))
        #expect(HubProcess.timeForWebhooks(since: start, now: now) == .milliseconds(left))
        #expect(HubProcess.timeForWebhooks(since: nil, now: now) == .seconds(2))
    }

    @Test func severalAppsNeedADatabaseApp() throws {
        let two = #"[{"id":"1","key":"a","secret":"s"},{"id":"2","key":"b","secret":"s"}]"#
        let environment = ["CARILLON_APPS": two, "DATABASE_URL": "postgresql://h/d"]
        #expect(throws: Failure.self) { try Settings(effectiveSettings(environment: environment)) }
        let named = try Settings(effectiveSettings(["--database-app", "2"], environment: environment))
        #expect(named.database.app == "2")
        #expect(throws: Failure.self) {
            try Settings(effectiveSettings(["--database-app", "3"], environment: environment))
        }
        // Without a database no app owns one.
        #expect(try Settings(effectiveSettings(environment: ["CARILLON_APPS": two])).database.app == nil)
    }
}
