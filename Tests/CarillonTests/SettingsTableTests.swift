import Foundation
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct SettingsTableTests {
    @Test func namesAreDerivedAndUnique() {
        let rows = SettingsTable.all
        #expect(Set(rows.map(\.key)).count == rows.count)
        #expect(Set(rows.map(\.environment)).count == rows.count)
        #expect(Set(rows.map(\.option)).count == rows.count)
        #expect(Setting.environmentName(of: "jwt.keysFile") == "CARILLON_JWT_KEYS_FILE")
        #expect(Setting.optionName(of: "databaseURL") == "--database-url")
        #expect(SettingsTable[\.database.url].environment == "DATABASE_URL")
    }

    @Test func everyDefaultIsAValue() throws {
        for row in SettingsTable.all {
            for text in [row.fallback, row.developmentFallback].compactMap({ $0 }) {
                var settings = Settings()
                #expect(throws: Never.self, "\(row.key)") { try row.read(text, &settings) }
            }
        }
    }

    /// A value that nobody sets should be a constant: a new setting must say who needs it, and which other one may be
    /// removed. The last ones: `push.webhookRequests`, for backends that take less than others, or more;
    /// `limits.requestsPerSecond`, for hubs whose clients all come by one address; and the five of `redis`: where it is, the
    /// name for operators with several installations, and three files for those whose Redis has a root of its own.
    @Test func thereAreFew() {
        #expect(SettingsTable.all.count <= 62)
    }

    /// Errors that concern several settings find each by its target.
    @Test func everyPlaceIsItsOwn() throws {
        for row in SettingsTable.all { #expect(SettingsTable[row.target].key == row.key) }
    }

    @Test(arguments: RemovedSettings.advice.keys.sorted())
    func whatHasGoneIsAnErrorThatSaysWhatToDo(_ key: String) throws {
        let advice = try #require(RemovedSettings.advice[key])
        #expect(!SettingsTable.all.contains { $0.key == key })
        // The settings that the advice names exist.
        let words = advice.split(whereSeparator: { " ,:;".contains($0) })
        for word in words where word.contains(".") || word.contains("Timeout") {
            #expect(SettingsTable.all.contains { $0.key == word }, "\(word)")
        }
        func refusal(_ sources: SettingsSources) throws -> String {
            let failure = #expect(throws: Failure.self) { try EffectiveSettings(sources, profile: .serve) }
            #expect(failure?.status == .configuration && failure?.lines.count == 1)
            return failure?.description ?? ""
        }
        let (option, variable) = (Setting.optionName(of: key), Setting.environmentName(of: key))
        let says = " is no longer a setting: \(advice)"
        #expect(try refusal(SettingsSources(arguments: [option, "5"])) == "command line: \(option)\(says)")
        #expect(try refusal(SettingsSources(arguments: [option + "=5"])) == "command line: \(option)\(says)")
        #expect(try refusal(SettingsSources(environment: [variable: "5"])) == "environment: \(variable)\(says)")
        let path = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let text = key.split(separator: ".").reversed().reduce("5") { "{\"\($1)\": \($0)}" }
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        #expect(try refusal(SettingsSources(arguments: ["--config", path])) == "file \(path) line 1: \(key)\(says)")
    }

    @Test func everyRowCanBeSetFromEachPlace() throws {
        // Each default is a valid value; settings without a default get one here.
        let values = [
            "apps": #"[{"id":"1","key":"k","secret":"s"}]"#, "databaseURL": "postgresql://h/d", "databaseApp": "1",
            "allowedOrigins": "*", "jwt.secret": String(repeating: "x", count: 32), "jwt.keysFile": "/keys.json",
            "jwt.issuer": "i", "jwt.audience": "a", "tls.certificateFiles": "/a.pem,/b.pem",
            "tls.keyFiles": "/a.key,/b.key", "tls.ticketKeysFile": "/tickets", "webhooks.caFile": "/ca.pem",
            "push.apnsKey": "ABCDE12345:TEAM123456:/AuthKey.p8", "push.apnsURL": "https://gateway.example.org",
            "push.fcmKeyFile": "/account.json", "control.socket": "/run/hub.socket",
            "push.webhookURL": "https://backend.example.org/sms",
            "console.credential": String(repeating: "x", count: 32), "redis.url": "redis://h",
            "redis.caFile": "/ca.pem", "redis.certificateFile": "/hub.pem", "redis.keyFile": "/hub.key",
        ]
        for row in SettingsTable.all {
            let text = try #require(values[row.key] ?? row.fallback)
            let line = SettingsSources(arguments: [row.option, text])
            #expect(try EffectiveSettings(line, profile: .serve).entries[row.key]?.text == text)
            let environment = SettingsSources(environment: [row.environment: text])
            #expect(try EffectiveSettings(environment, profile: .serve).entries[row.key]?.text == text)
        }
    }

    @Test func thePageOfSettingsIsUpToDate() throws {
        let page = try Page("deploy/settings.md").text
        #expect(page == CheckConfigCommand.page + "\n", "carillon check-config --markdown > deploy/settings.md")
    }

    @Test(arguments: [SettingsProfile.serve, .development])
    func helpTellsOfEverySetting(_ profile: SettingsProfile) throws {
        let help = SettingsHelp.all(profile).text
        #expect(help.split(separator: "\n").allSatisfy { $0.count <= 80 })
        let words = help.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        for row in SettingsTable.all {
            let own = profile == .development ? row.developmentFallback ?? row.fallback : row.fallback
            let fallback =
                switch own {
                case nil, "": "none"
                case let text?: text.count > 60 ? "see carillon check-config --dev" : text
                }
            #expect(words.contains("\(row.option) <\(row.takes)> "))
            #expect(words.contains(" (default: \(fallback); environment: \(row.environment))"))
        }
    }

    @Test func checkConfigShowsSourcesAndNoSecrets() throws {
        let secret = "hunter2hunter2hunter2hunter2hunter2"
        let sources = SettingsSources(
            arguments: ["--jwt-secret", secret],
            environment: ["DATABASE_URL": "postgresql://u:\(secret)@h/d"])
        let lines = CheckConfigCommand.lines(try EffectiveSettings(sources, profile: .development))
        #expect(lines.count == SettingsTable.all.count)
        #expect(!lines.joined().contains(secret))
        #expect(lines.contains { $0.hasPrefix("jwt.secret ") && $0.hasSuffix("command line --jwt-secret") })
        #expect(lines.contains { $0.hasPrefix("databaseURL ") && $0.hasSuffix("environment DATABASE_URL") })
    }
}
