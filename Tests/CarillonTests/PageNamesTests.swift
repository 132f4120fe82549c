import Foundation
import Testing

@testable import carillon

/// Names in the pages' code still exist, and what operators may set or watch is documented.
@Suite(.timeLimit(.minutes(15)))
struct PageNamesTests {
    /// All pages except the changelog, which also names what was removed.
    private static let pages =
        [
            "", "Sources/", "Sources/Values/Sync/", "Sources/Values/Pusher/", "Sources/Clients/CarillonClient/", "sql/",
            "deploy/", "loadtest/", "Tests/",
        ].map { $0 + "README.md" } + [
            "deploy/install.md", "deploy/console.md", "deploy/settings.md", "deploy/metrics.md", "CONTRIBUTING.md",
            "SECURITY.md",
        ]

    /// The text of all files with one of these extensions below these folders.
    private static func text(of extensions: Set<String>, below folders: [String]) throws -> String {
        var all = ""
        for folder in folders {
            let root = Page.root.appendingPathComponent(folder)
            for path in try FileManager.default.subpathsOfDirectory(atPath: root.path) {
                guard extensions.contains((path as NSString).pathExtension), !path.contains(".build") else { continue }
                all += try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8) + "\n"
            }
        }
        return all
    }

    /// The names of metric families, without their prefix.
    private static func families() throws -> Set<String> {
        let sources = try text(of: ["swift"], below: ["Sources"])
        let calls = sources.matches(of: /(?:gauge|counter|histogram)\(\s*"([a-z_]+)"/).map { String($0.1) }
        return Set(calls.map { $0.hasPrefix("process_") ? $0 : "carillon_" + $0 })
    }

    @Test func everyMetricIsInItsPage() throws {
        let rows = try Page("deploy/metrics.md").text.matches(of: /(?m)^\| `(\w+)` \|/).map { String($0.1) }
        #expect(Set(rows).count == rows.count)
        let families = try Self.families()
        #expect(families.count > 80)
        #expect(families.subtracting(rows) == [], "without a line in deploy/metrics.md")
        #expect(Set(rows).subtracting(families) == [], "not counted any more")
    }

    @Test(arguments: pages) func metricsThatAPageNamesAreCounted(_ name: String) throws {
        let families = try Self.families()
        for word in try Page(name).code.flatMap({
            $0.matches(of: /carillon_[a-z_]+_(?:total|seconds|bytes|lag_events)\b/)
        }) {
            #expect(families.contains(String(word.0)), "\(name): \(word.0)")
        }
    }

    @Test(arguments: pages) func settingsThatAPageNamesAreThere(_ name: String) throws {
        let keys = Set(SettingsTable.all.map(\.key))
        let variables = Set(SettingsTable.all.map(\.environment))
            .union([
                "CARILLON_CONFIG", "CARILLON_SEED", "CARILLON_ACTIONS", "CARILLON_PLANS", "CARILLON_REMINDERS",
                "CARILLON_CHANNELS",
                "CARILLON_WEEKS", "CARILLON_SERVICE_", "CARILLON_PORT", "CARILLON_VECTORS", "CARILLON_TOKEN",
            ])
        // Names of fixed limits are in the table of limits, where the metric uses them.
        let limits = try Self.text(
            of: ["swift"], below: ["Sources/Edge/Gateway", "Sources/Engine", "Sources/carillon/Settings"])
        for code in try Page(name).code {
            if let key = code.wholeMatch(
                of:
                    #/
                    (?:limits|store|feed|tls|jwt|webhooks|cache|presence|operations|log|websocket|api
                        |console|drain|push|control)
                    \.[a-zA-Z]+
                    /#
            ) {
                let member = String(key.0.split(separator: ".")[1])
                let isKnown =
                    keys.contains(String(key.0)) || limits.contains("\"\(key.0)\"") || limits.contains("\"\(member)\"")
                #expect(isKnown, "\(name): \(key.0)")
            }
            for variable in code.matches(of: /CARILLON_[A-Z_]+/) {
                #expect(variables.contains(String(variable.0)), "\(name): \(variable.0)")
            }
        }
    }

    /// Files, types and functions.
    @Test(arguments: pages) func whatAPageNamesInCodeIsThere(_ name: String) throws {
        let folders = ["Sources", "Tests", "loadtest", "sql"]
        let swift = try Self.text(of: ["swift"], below: folders)
        let sql = try Self.text(of: ["sql"], below: ["sql"])
        for code in try Page(name).code {
            if code.wholeMatch(of: /[\w\/.+-]+\/[\w.+-]+\.(?:swift|sql|md|yml|sh|service|example)/) != nil,
                !code.hasPrefix("/")
            {
                let isThere = ["", "Sources/", "sql/functions/"].contains {
                    FileManager.default.fileExists(atPath: Page.root.appendingPathComponent($0 + code).path)
                }
                #expect(isThere, "\(name): \(code)")
            } else if code.wholeMatch(of: /[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+(?:\.[a-z]\w*)?/) != nil {
                let type = code.split(separator: ".")[0]
                #expect(
                    swift.contains(" \(type)") || swift.contains("\"\(type)") || Self.foreign.contains(code),
                    "\(name): \(code)")
            } else if let function = code.wholeMatch(of: /((?:sync|care)\.[a-z_]+)(?:\(.*\))?/) {
                #expect(sql.contains(function.1), "\(name): \(code)")
            }
        }
    }

    /// Names that belong to others.
    private static let foreign: Set = ["DateStyle", "TimeZone", "LimitNOFILE", "TimeoutStopSec"]

    @Test(arguments: pages + ["CHANGELOG.md"]) func commandsAreThere(_ name: String) throws {
        let commands = Carillon.configuration.subcommands.compactMap { $0.configuration.commandName }
        let targets = try Page("Makefile").text.matches(of: /(?m)^([a-z-]+):/).map { String($0.1) }
        for code in try Page(name).code {
            for use in code.matches(of: /(?m)(?:^|[ \/])carillon ([a-z][a-z-]+)/) {
                #expect(commands.contains(String(use.1)), "\(name): \(use.0)")
            }
            if let use = code.prefixMatch(of: /make ([a-z-]+)/) {
                #expect(targets.contains(String(use.1)), "\(name): \(use.0)")
            }
        }
    }

    /// The messages of the operator's page, as in the sources, regardless of line breaks.
    @Test func messagesOfTroubleAreStillWritten() throws {
        let sources = try Self.text(of: ["swift"], below: ["Sources"])
            .replacing(/\\\n\s*/, with: "").replacing(/"\s*\+ "/, with: "")
        let section = try #require(Page("deploy/README.md").section("## Trouble, by message"))
        let rows = section.filter { $0.hasPrefix("| `") }
        #expect(rows.count > 15)
        for row in rows {
            for message in row.split(separator: "|")[0].matches(of: /`([^`]+)`/) {
                #expect(sources.contains(message.1), "\(message.1)")
            }
        }
    }

    /// Between releases the program says which one is being made: with `-dev`, and newer than the last one.
    @Test func theNewestReleaseIsThisVersionOrTheOneBefore() throws {
        let headings = try Page("CHANGELOG.md").text.matches(of: /(?m)^## (.*)$/).map { String($0.1) }
        try #require(headings.count >= 2 && headings[0] == "Unreleased")
        let released = try #require(headings[1].wholeMatch(of: /(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d/)?.1)
        let parts = Carillon.version.components(separatedBy: "-dev")
        let isNewer = parts[0].compare(released, options: .numeric) == .orderedDescending
        #expect(parts.count == 1 ? parts[0] == released : isNewer && parts[1].isEmpty)
        #expect(try Page("README.md").text.contains("\n**\(Carillon.version)**"))
    }
}
