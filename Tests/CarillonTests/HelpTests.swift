import Testing

@testable import carillon

/// The command's output for somebody who does not know it yet.
@Suite(.timeLimit(.minutes(15)))
struct HelpTests {
    private func run(_ arguments: [String]) throws -> (text: String, status: Int32) {
        let command = try RunningCommand(arguments, isMixed: true)
        let text = command.rest()
        return (text, command.end())
    }

    @Test(arguments: [["migrate", "--help"], ["help", "migrate"], ["migrate", "--dry-run", "-h"]])
    func migrateTellsItsOwnOptionsFirst(_ arguments: [String]) throws {
        let (text, status) = try run(arguments)
        #expect(status == 0)
        let own = try #require(text.range(of: "--new-epoch"))
        let settings = try #require(text.range(of: "SETTINGS"))
        #expect(own.upperBound < settings.lowerBound)
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count < 50)
        #expect(text.contains("--database-url") && text.contains("environment: DATABASE_URL"))
        #expect(text.contains("--config") && text.contains("environment: CARILLON_CONFIG"))
        #expect(text.contains("check-config --help"))
        #expect(!text.contains("--listen"))
    }

    @Test(arguments: [("serve", ""), ("dev", "--dir"), ("check-config", "--dev")])
    func othersListAllSettingsBelowTheirOwn(_ command: String, _ own: String) throws {
        let (text, status) = try run([command, "--help"])
        #expect(status == 0)
        let usage = try #require(text.range(of: "USAGE: carillon \(command) "))
        let settings = try #require(text.range(of: "SETTINGS"))
        #expect(usage.upperBound < settings.lowerBound)
        if own.hasPrefix("--") { #expect(text[..<settings.lowerBound].contains(own)) }
        #expect(text.hasSuffix(SettingsHelp.all(command == "dev" ? .development : .serve).text + "\n"))
    }

    @Test func theRestHasNoSettings() throws {
        for arguments in [["--help"], ["tail", "--help"], ["token", "--help"], ["--version"]] {
            let (text, status) = try run(arguments)
            #expect(status == 0 && !text.contains("SETTINGS"), "\(arguments)")
        }
    }

    @Test(arguments: [
        (["serv"], "serv, did you mean serve?"), (["srve", "--listen", "127.0.0.1:0"], "srve, did you mean serve?"),
        (["SERVE"], "SERVE, did you mean serve?"), (["check"], "check, did you mean check-config?"),
        (["migarte"], "migarte, did you mean migrate?"), (["help", "serv"], "serv, did you mean serve?"),
        (["tial"], "tial, did you mean tail?"),
        (
            ["frobnicate"],
            "frobnicate; there are serve, dev, migrate, token, tail, jobs, drain, cluster, check-config, version"
        ),
        ([""], "; there are serve"),
    ])
    func aCommandThatIsNoneIsAnswered(_ arguments: [String], _ hint: String) throws {
        let (text, status) = try run(arguments)
        #expect(text.contains("Error: there is no command \(hint)"), "\(text)")
        #expect(status == 64)
    }

    @Test(arguments: [[], ["--help"], ["help"], ["version"], ["serve", "--lsten"], ["--version"], ["help", "tail"]])
    func commandsThatAreAreLeftAlone(_ arguments: [String]) throws {
        #expect(throws: Never.self) { try Carillon.checkCommand(arguments) }
    }
}
