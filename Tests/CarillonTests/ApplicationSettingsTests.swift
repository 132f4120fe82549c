import Courier
import Foundation
import Gateway
import HubEngine
import Logging
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct ApplicationSettingsTests {
    /// An application with these members and the three required ones.
    private func app(_ members: String) throws(BadValue) -> ApplicationSettings {
        let text = #"[{"id":"7","key":"k","secret":"s"\#(members.isEmpty ? "" : ",")\#(members)}]"#
        guard let app = try ApplicationSettings.list(text).first else { throw BadValue("there") }
        return app
    }

    private func refusal(_ members: String) -> String? {
        do throws(BadValue) {
            _ = try app(members)
            return nil
        } catch {
            return "\(error.part ?? "apps") must be \(error.mustBe)"
        }
    }

    @Test func defaultsArePushers() throws {
        let app = try app("")
        #expect(app.features == AppFeatures())
        #expect(app.limits == AppLimits())
        #expect(app.webhooks.isEmpty)
        #expect(app.name == "7")
        #expect(app.previousSecret == nil)
    }

    @Test func everyMemberIsRead() throws {
        let app = try app(
            #"""
            "previousSecret": "old", "name": "Seven", "enabled": false, "clientEvents": true, "subscriptionCounts": true,
            "watchlists": true, "authorizationTimeout": "30s",
            "limits": {"connections": 5, "eventBytes": "64KiB", "channelsPerPublish": 1, "batchEvents": 2,
                "publishesPerSecond": 3, "presenceMembers": 5, "presenceMemberBytes": 6,
                "clientEventsPerSecond": 7, "watchlist": 0},
            "webhooks": [
                {"url": "https://u:p@h.example/a?b", "events": ["presence", "channel_existence"], "batch": true,
                    "headers": {"X-B": "2", "X-A": ""}},
                {"url": "http://h.example:8080", "events": ["client_events", "cache_channels", "subscription_count"]}]
            """#)
        #expect(app.previousSecret == "old")
        #expect(app.name == "Seven")
        var features = AppFeatures()
        (features.isEnabled, features.clientEvents, features.subscriptionCounts) = (false, true, true)
        (features.watchlists, features.authorizationDeadline) = (true, .seconds(30))
        features.webhooks = [.channelExistence, .presence, .clientEvents, .cacheChannels, .subscriptionCount]
        #expect(app.features == features)
        var limits = AppLimits()
        (limits.connectionsMax, limits.eventBytesMax, limits.channelsPerPublishMax) = (5, 64 << 10, 1)
        (limits.batchEventsMax, limits.publishesPerSecond, limits.publishesBurst) = (2, 3, 3)
        (limits.presenceMembersMax, limits.presenceMemberBytesMax) = (5, 6)
        (limits.clientEventsPerSecond, limits.watchlistMax) = (7, 0)
        #expect(app.limits == limits)
        #expect(
            app.webhooks == [
                WebhookEndpoint(
                    url: "https://u:p@h.example/a?b", kinds: [.presence, .channelExistence], isBatched: true,
                    headers: [.init("X-A", ""), .init("X-B", "2")]),
                WebhookEndpoint(
                    url: "http://h.example:8080", kinds: [.clientEvents, .cacheChannels, .subscriptionCount]),
            ])
        #expect(try self.app(#""authorizationTimeout": 30"#).features.authorizationDeadline == .seconds(30))
    }

    @Test func aBurstIsASecondsWorth() throws {
        #expect(try app(#""limits": {"publishesPerSecond": 50}"#).limits.publishesBurst == 50)
        #expect(try app(#""limits": {"publishesPerSecond": 5}"#).limits.publishesBurst == 10, "one batch")
        let advice = "it is a second's worth of publishesPerSecond, and one batch at least"
        #expect(
            refusal(#""limits": {"publishesPerSecond": 5, "publishesBurst": 9}"#)
                == "application \"7\", limits, \"publishesBurst\", must be left out: \(advice)")
    }

    @Test(
        arguments: [
            (
                #""clientEvent": true"#,
                ["application 1, \"clientEvent\", must be one of the members id,", "did you mean clientEvents?"]
            ),
            (#""enabled": 1"#, ["application \"7\", \"enabled\" must be true or false"]),
            (#""enabled": "yes""#, ["\"enabled\" must be true or false"]),
            (#""previousSecret": """#, ["\"previousSecret\" must be a text of 1 to 1024 bytes"]),
            (#""name": 5"#, ["\"name\" must be a text"]),
            (
                #""authorizationTimeout": "0s""#,
                ["\"authorizationTimeout\" must be a time such as 30s", "from 1s to 60m"]
            ),
            (#""authorizationTimeout": true"#, ["\"authorizationTimeout\" must be a time"]),
            (#""limits": []"#, ["application \"7\", limits must be a JSON object"]),
            (
                #""limits": {"channel": 1}"#,
                ["application \"7\", limits, \"channel\", must be one of the members connections, channels, eventBytes"]
            ),
            (#""limits": {"connections": 0}"#, ["limits, \"connections\" must be a whole number from 1 to 10000000"]),
            (#""limits": {"connections": true}"#, ["\"connections\" must be a whole number"]),
            (#""limits": {"watchlist": 1.5}"#, ["\"watchlist\" must be a whole number from 0 to 1000"]),
            (#""limits": {"eventBytes": "10GB"}"#, ["\"eventBytes\" must be a number of bytes such as"]),
            (#""webhooks": {}"#, ["\"webhooks\" must be an array of at most 20 objects"]),
            (#""webhooks": [1]"#, ["application \"7\", webhooks 1 must be a JSON object"]),
            (#""webhooks": [{"events": ["presence"]}]"#, ["application \"7\", webhooks 1, \"url\" must be there"]),
            (
                #""webhooks": [{"url": "http://h/"}]"#,
                ["\"events\" must be an array of some of channel_existence, presence"]
            ),
            (#""webhooks": [{"url": "http://h/", "events": []}]"#, ["\"events\" must be an array"]),
            (
                #""webhooks": [{"url": "http://h/", "events": ["presence", "presence"]}]"#,
                ["\"events\" must be an array"]
            ),
            (#""webhooks": [{"url": "http://h/", "events": ["member_added"]}]"#, ["\"events\" must be an array"]),
            (#""webhooks": [{"url": "ftp://h/", "events": ["presence"]}]"#, ["\"url\" must be such as https://"]),
            (#""webhooks": [{"url": "http://", "events": ["presence"]}]"#, ["\"url\" must be such as https://"]),
            (#""webhooks": [{"url": "http:///x", "events": ["presence"]}]"#, ["\"url\" must be such as https://"]),
            (#""webhooks": [{"url": "http://h/ x", "events": ["presence"]}]"#, ["\"url\" must be such as https://"]),
            (#""webhooks": [{"url": "http://h:0/", "events": ["presence"]}]"#, ["\"url\" must be such as https://"]),
            (
                #""webhooks": [{"url": "http://h/", "events": ["presence"], "headers": {"X-Pusher-Key": "k"}}]"#,
                ["\"headers\" must be fields without X-Pusher-Key"]
            ),
            (
                #""webhooks": [{"url": "http://h/", "events": ["presence"], "headers": {"A B": "k"}}]"#,
                ["\"headers\" must be fields of HTTP"]
            ),
            (
                #""webhooks": [{"url": "http://h/", "events": ["presence"], "headers": {"A": "k\r\nB: c"}}]"#,
                ["\"headers\" must be fields of HTTP"]
            ),
            (
                #""webhooks": [{"url": "http://h/", "events": ["presence"]}, {"url": "http://h/", "events": ["presence"]}]"#,
                ["\"webhooks\" must be objects whose URLs differ"]
            ),
        ] as [(String, [String])])
    func errorsSayWhichMemberOfWhichApplication(_ members: String, _ words: [String]) throws {
        let said = try #require(refusal(members))
        for word in words { #expect(said.contains(word), "\(said)") }
    }

    @Test(arguments: [
        (#"{"id":"7","key":"l","secret":"s"}"#, "the id of applications", #"two have "7""#),
        (#"{"id":7,"key":"l","secret":"s"}"#, "the id of applications", #"two have "7""#),
        (#"{"id":"8","key":"k","secret":"s"}"#, "the key of applications", #""7" and "8" have "k""#),
    ])
    func aTakenNameIsNamed(_ other: String, _ part: String, _ words: String) throws {
        let error = #expect(throws: BadValue.self) {
            try ApplicationSettings.list(#"[{"id":"7","key":"k","secret":"s"},\#(other)]"#)
        }
        #expect(error?.part == part && error?.mustBe.hasSuffix(words) == true)
    }

    @Test func listsAndTextsHaveBounds() throws {
        func webhooks(_ count: Int) -> String {
            let each = (0..<count).map { #"{"url": "http://h/\#($0)", "events": ["presence"]}"# }
            return #""webhooks": [\#(each.joined(separator: ","))]"#
        }
        #expect(try app(webhooks(20)).webhooks.count == 20)
        #expect(refusal(webhooks(21)) != nil)
        func headers(_ count: Int, _ bytes: Int = 1) -> String {
            let value = String(repeating: "x", count: bytes)
            let fields = (0..<count).map { #""X-\#($0)": "\#(value)""# }.joined(separator: ",")
            return #""webhooks": [{"url": "http://h/", "events": ["presence"], "headers": {\#(fields)}}]"#
        }
        #expect(refusal(headers(20)) == nil)
        #expect(refusal(headers(21)) != nil)
        #expect(refusal(headers(1, 4096)) == nil)
        #expect(refusal(headers(1, 4097)) != nil)
        let long = String(repeating: "s", count: 1025)
        #expect(refusal(#""previousSecret": "\#(long.dropLast())""#) == nil)
        #expect(refusal(#""previousSecret": "\#(long)""#) != nil)
        let url = {
            #""webhooks": [{"url": "http://h/\#(String(repeating: "x", count: $0 - 9))", "events": ["presence"]}]"#
        }
        #expect(refusal(url(2048)) == nil)
        #expect(refusal(url(2049)) != nil)
    }

    @Test func secretsOfAllKindsAreMasked() {
        let shown = SettingsTable[\.apps].shown(
            #"""
            [{"id":"1","key":"k","secret":"hunter2","previousSecret":"hunter3","clientEvents":true,
              "webhooks":[{"url":"https://me:hunter4@h.example/hooks?token=hunter5","events":["presence"],
                           "headers":{"Authorization":"hunter6"}}]}]
            """#)
        #expect(!shown.contains("hunter"))
        #expect(
            shown == #"[{"id": "1", "key": "k", "secret": "****", "webhooks": [{"url": "https://****@h.example/****", "#
                + #""events": ["presence"], "headers": {"Authorization": "****"}}], "clientEvents": true, "#
                + #""previousSecret": "****"}]"#)
        for (url, shown) in [
            ("http://h/", "http://h/"), ("http://u@h:8/a@b", "http://****@h:8/****"),
            ("http://h?x@y", "http://h/****"), ("http://a:b@c@h", "http://****@h"), ("https://h#x", "https://h/****"),
            ("https://hooks.example/T0/B0/s3cret", "https://hooks.example/****"), ("h/x", "****"),
        ] { #expect(SettingMask.withoutCredentials(url: url) == shown) }
    }

    @Test func theHubsAppsAreMadeOfThem() throws {
        let apps =
            #"[{"id":"1","key":"k","secret":"s","enabled":false,"limits":{"connections":9}},{"id":"2","key":"l","secret":"s"}]"#
        let sources = SettingsSources(
            arguments: ["--apps", apps, "--database-app", "2"], environment: ["DATABASE_URL": "postgresql://h/d"])
        let configuration = GatewayConfiguration(try Settings(EffectiveSettings(sources, profile: .serve)))
        #expect(configuration.apps.map(\.id) == ["1", "2"])
        #expect(configuration.apps.map(\.index) == [0, 1])
        #expect(configuration.apps.map(\.ownsDatabase) == [false, true])
        #expect(configuration.apps[0].features.isEnabled == false)
        #expect(configuration.apps[0].limits.connectionsMax == 9)
    }

    @Test(
        arguments: [
            ("{}", 655_360), (#"{"batchEvents":20}"#, 655_360), (#"{"batchEvents":21}"#, 666_624),
            (#"{"eventBytes":65536}"#, 1_976_320), (#"{"eventBytes":65536,"batchEvents":1}"#, 655_360),
            (#"{"channelsPerPublish":1000,"eventBytes":"150KiB","batchEvents":1}"#, 669_824),
        ])
    func whatAnAppMayPublishFitsIntoABody(_ limits: String, _ bytes: Int) throws {
        let settings = try Self.settings(ofApp: limits)
        #expect(settings.gateway.httpLimits.bodyBytes == bytes)
        // A running hub takes no longer one.
        let needed = try #require(settings.apps.first).limits.bodyBytes
        try settings.checkBodies(ofRunningHub: needed)
        let failure = try #require(throws: Failure.self) { try settings.checkBodies(ofRunningHub: needed - 1) }
        #expect(failure.description.contains(#"application "7""#) && failure.description.contains("restart the hub"))
    }

    @Test func noAppMayPublishMoreThanAHubTakesAtOnce() throws {
        // 500 × (3 × 10,840 + 1,024) are 16 MiB less 5,216 bytes.
        #expect(
            try Self.settings(ofApp: #"{"batchEvents":500,"eventBytes":10840}"#).gateway.httpLimits.bodyBytes
                == 16_772_000)
        let failure = try #require(throws: Failure.self) {
            _ = try Self.settings(ofApp: #"{"batchEvents":500,"eventBytes":10844}"#)
        }
        #expect(failure.description.hasPrefix("apps: 16777216 bytes of a request do not hold"))
        #expect(failure.description.contains("batchEvents (500)") && !failure.description.contains("restart"))
    }

    private static func settings(ofApp limits: String) throws -> Settings {
        let apps = #"[{"id":"7","key":"k","secret":"s","limits":\#(limits)}]"#
        return try Settings(EffectiveSettings(SettingsSources(arguments: ["--apps", apps]), profile: .serve))
    }

    @Test func theDemonstrationHasWhatPeopleTry() throws {
        let app = try #require(try Settings(EffectiveSettings(SettingsSources(), profile: .development)).apps.first)
        #expect(app.features.clientEvents && app.features.subscriptionCounts && app.features.watchlists)
    }

    @Test func webhooksGoOutAsTheSettingsSay() throws {
        func configuration(_ arguments: [String], _ profile: SettingsProfile) throws -> CourierConfiguration {
            let sources = SettingsSources(arguments: ["--apps", #"[{"id":"1","key":"k","secret":"s"}]"#] + arguments)
            return try Settings(EffectiveSettings(sources, profile: profile)).webhooks
        }
        let plain = try configuration([], .serve)
        #expect(plain.limits == CourierLimits())
        #expect(!plain.allowsPrivate)
        #expect(plain.caFile == nil)
        #expect(plain.userAgent == "Carillon/\(Carillon.version)")
        #expect(try configuration([], .development).allowsPrivate)
        let other = try configuration(
            ["--webhooks-allow-private", "--webhooks-ca-file", "/ca.pem"], .serve)
        #expect(other.allowsPrivate)
        #expect(other.caFile == "/ca.pem")
    }

    @Test func aFileOfCertificatesMustHoldSome() throws {
        func check(_ file: String?) throws {
            var configuration = CourierConfiguration()
            configuration.caFile = file
            try configuration.checkFile()
        }
        try check(nil)
        let missing = #expect(throws: Failure.self) { try check("/no/such.pem") }
        #expect(missing?.description.hasPrefix("webhooks.caFile: /no/such.pem cannot be read") == true)
        #expect(missing?.status == .configuration)
        let empty = #expect(throws: Failure.self) { try check(#filePath) }
        #expect(empty?.description.contains("holds no certificate") == true)
    }

    @Test func aReloadTellsWhoCameChangedAndWent() throws {
        func apps(_ list: [(Int, String)]) throws -> [ApplicationSettings] {
            let each = list.map { #"{"id":"\#($0.0)","key":"k\#($0.0)","secret":"\#($0.1)"}"# }
            return try ApplicationSettings.list("[\(each.joined(separator: ","))]")
        }
        let before = try apps([(1, "s"), (2, "s"), (3, "s")])
        let difference = AppDifference(from: before, to: try apps([(3, "s"), (2, "t"), (4, "s")]))
        #expect(difference.came == ["4"] && difference.changed == ["2"] && difference.went == ["1"])
        #expect(difference.metadata(countingAll: 3) == ["apps": "3", "came": "4", "changed": "2", "went": "1"])
        #expect(AppDifference(from: before, to: before).metadata(countingAll: 3) == ["apps": "3"])
        let many = AppDifference(from: [], to: try apps((1...21).map { ($0, "s") })).metadata(countingAll: 21)["came"]
        #expect(many?.description.hasSuffix("19, 20 and 1 more") == true)
    }

    @Test func theFilesAppsAreReadAnewUnlessSomethingElseHasThem() throws {
        let apps = #"[{"id":"1","key":"k","secret":"s"}]"#
        let file = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try #"{"apps": \#(apps)}"#.write(toFile: file, atomically: true, encoding: .utf8)
        func other(_ arguments: [String], _ environment: [String: String] = [:]) throws -> String? {
            let sources = SettingsSources(arguments: ["--config", file] + arguments, environment: environment)
            return AppReload.otherSource(of: try EffectiveSettings(sources, profile: .serve))
        }
        #expect(try other([]) == nil)
        #expect(try other([], ["CARILLON_APPS": apps]) == "CARILLON_APPS")
        #expect(try other(["--apps", apps], ["CARILLON_APPS": apps]) == "--apps")
    }

    @Test func settingsThatNeedARestartAreNamed() throws {
        func effective(_ arguments: [String]) throws -> EffectiveSettings {
            try EffectiveSettings(SettingsSources(arguments: arguments), profile: .serve)
        }
        let before = try effective(["--apps", #"[{"id":"1","key":"k","secret":"s"}]"#, "--loops", "2"])
        let after = try effective(["--apps", #"[{"id":"2","key":"k","secret":"s"}]"#, "--jwt-issuer", "i"])
        #expect(AppReload.changed(from: before, to: before, ownerStays: true).isEmpty)
        #expect(AppReload.changed(from: before, to: after, ownerStays: true) == ["loops", "jwt.issuer"])
    }
}
