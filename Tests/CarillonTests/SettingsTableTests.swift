import Foundation
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct SettingsTableTests {
    @Test func namesAreDerivedAndUnique() {
        let rows = SettingsTable.rows
        #expect(Set(rows.map(\.key)).count == rows.count)
        #expect(Set(rows.map(\.environment)).count == rows.count)
        #expect(Set(rows.map(\.option)).count == rows.count)
        #expect(SettingRow.environmentName(of: "jwt.keysFile") == "CARILLON_JWT_KEYS_FILE")
        #expect(SettingRow.optionName(of: "databaseURL") == "--database-url")
        #expect(SettingsTable.databaseURL.row.environment == "DATABASE_URL")
    }

    @Test func everyDefaultIsAValue() throws {
        for row in SettingsTable.rows {
            for text in [row.fallback, row.developmentFallback].compactMap({ $0 }) {
                #expect(throws: Never.self, "\(row.key)") { try row.check(text) }
            }
        }
    }

    @Test func everyRowCanBeSetFromEachPlace() throws {
        // The default of each is a value; one without a default gets one here.
        let values = [
            "apps": #"[{"id":"1","key":"k","secret":"s"}]"#, "databaseURL": "postgresql://h/d", "databaseApp": "1",
            "allowedOrigins": "*", "jwt.secret": String(repeating: "x", count: 32), "jwt.keysFile": "/keys.json",
            "jwt.issuer": "i", "jwt.audience": "a", "tls.certificateFiles": "/a.pem,/b.pem",
            "tls.keyFiles": "/a.key,/b.key", "tls.ticketKeysFile": "/tickets", "webhooks.caFile": "/ca.pem",
        ]
        for row in SettingsTable.rows {
            let text = try #require(values[row.key] ?? row.fallback)
            let line = SettingsSources(arguments: [row.option, text])
            #expect(try EffectiveSettings(line, profile: .serve).entries[row.key]?.text == text)
            let environment = SettingsSources(environment: [row.environment: text])
            #expect(try EffectiveSettings(environment, profile: .serve).entries[row.key]?.text == text)
        }
    }

    @Test func operatorsPageHoldsTheTable() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let readme = try String(contentsOf: root.appendingPathComponent("deploy/README.md"), encoding: .utf8)
        let table = CheckConfigCommand.markdownTable.joined(separator: "\n")
        #expect(readme.contains(table), "paste the output of: carillon check-config --markdown")
    }

    @Test(arguments: [SettingsProfile.serve, .development])
    func helpTellsOfEverySetting(_ profile: SettingsProfile) throws {
        let help = SettingsHelp.all(profile).text
        #expect(help.split(separator: "\n").allSatisfy { $0.count <= 80 })
        let words = help.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        for row in SettingsTable.rows {
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
        #expect(lines.count == SettingsTable.rows.count)
        #expect(!lines.joined().contains(secret))
        #expect(lines.contains { $0.hasPrefix("jwt.secret ") && $0.hasSuffix("command line --jwt-secret") })
        #expect(lines.contains { $0.hasPrefix("databaseURL ") && $0.hasSuffix("environment DATABASE_URL") })
    }
}
