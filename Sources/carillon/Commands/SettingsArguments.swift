import ArgumentParser
import Foundation

/// The settings among a command's arguments: every option of `SettingsTable`, and `--config FILE`.
///
/// They are collected unparsed and read by the table, so that an option needs no second declaration.
struct SettingsArguments: ParsableArguments {
    @Argument(
        parsing: .allUnrecognized,
        help: ArgumentHelp("Settings, as listed above.", valueName: "settings"))
    var rest: [String] = []

    /// Command line, environment and file.
    var sources: SettingsSources {
        SettingsSources(arguments: rest, environment: ProcessInfo.processInfo.environment)
    }

    /// Asks all of them.
    func effective(_ profile: SettingsProfile) throws -> EffectiveSettings {
        try EffectiveSettings(sources, profile: profile)
    }

    /// The part of `--help` that lists the settings: the option on a line of its own, since help is 80 columns wide.
    static let help: String = {
        var lines = ["SETTINGS (command line over environment over file):", ""]
        lines.append("  \(SettingsTable.fileOption) <path>")
        lines += indented("Configuration file (JSON); also \(SettingsTable.fileEnvironment).")
        for row in SettingsTable.rows {
            lines.append("  \(row.option) <\(row.takes)>")
            lines += indented(row.help)
        }
        return lines.joined(separator: "\n")
    }()

    private static func indented(_ text: String) -> [String] {
        var lines: [String] = []
        var line = "     "
        for word in text.split(separator: " ") {
            if line.count + word.count >= 78 {
                lines.append(line)
                line = "     "
            }
            line += " " + word
        }
        return lines + [line]
    }
}
