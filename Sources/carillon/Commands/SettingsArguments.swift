import ArgumentParser
import Foundation

/// The settings among a command's arguments: every option of `SettingsTable`, and `--config FILE`.
///
/// They are collected unparsed and read by the table, so that an option needs no second declaration.
struct SettingsArguments: ParsableArguments {
    @Argument(
        parsing: .allUnrecognized,
        help: ArgumentHelp("Settings, as listed below.", valueName: "settings"))
    var rest: [String] = []

    /// Asks command line, environment and file.
    func effective(_ profile: SettingsProfile) throws -> EffectiveSettings {
        let sources = SettingsSources(arguments: rest, environment: ProcessInfo.processInfo.environment)
        return try EffectiveSettings(sources, profile: profile)
    }

    /// The part of `--help` that lists the settings.
    static let help: String = {
        var lines = ["SETTINGS (command line over environment over file; see also `carillon check-config`):"]
        let width = (SettingsTable.rows.map { $0.option.count + $0.takes.count }.max() ?? 0) + 3
        func line(_ option: String, _ takes: String, _ text: String) -> String {
            "  " + "\(option) <\(takes)>".padding(toLength: width, withPad: " ", startingAt: 0) + "  " + text
        }
        lines.append(line(SettingsTable.fileOption, "path", "Configuration file (JSON); also \(SettingsTable.fileEnvironment)."))
        lines += SettingsTable.rows.map { line($0.option, $0.takes, $0.help) }
        return lines.joined(separator: "\n")
    }()
}
