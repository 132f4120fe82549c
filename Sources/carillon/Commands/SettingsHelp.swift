import ArgumentParser

/// A command that takes settings.
protocol SettingsReader: ParsableCommand {
    /// The settings part of its `--help`.
    static var settingsHelp: SettingsHelp { get }
}

/// The list of settings in a command's `--help`, after the command's own options.
struct SettingsHelp: Sendable {
    let groups: [SettingGroup]
    /// The profile whose defaults are shown.
    let profile: SettingsProfile
    /// A text after the list.
    var pointer: String?

    static func all(_ profile: SettingsProfile) -> SettingsHelp {
        SettingsHelp(groups: SettingsTable.groups, profile: profile)
    }

    /// The text to append to a printed text; nil unless it is the help of a command that takes settings.
    static func below(_ text: String) -> String? {
        let readers = Carillon.configuration.subcommands.compactMap { $0 as? any SettingsReader.Type }
        let reader = readers.first { reader in
            text.contains("USAGE: carillon \(reader.configuration.commandName ?? "") ")
        }
        return reader?.settingsHelp.text
    }

    /// Each option is on its own line: help is 80 columns wide.
    var text: String {
        var lines = ["SETTINGS (the command line wins over the environment, that over the file):"]
        lines.append("  \(SettingsSources.fileOption) <path>")
        lines += Self.indented("Configuration file, JSON. (environment: \(SettingsSources.fileEnvironment))")
        for group in groups {
            lines += ["", "\(group.title):"]
            for setting in group.settings {
                lines.append("  \(setting.option) <\(setting.takes)>")
                lines += Self.indented(
                    "\(setting.help) (default: \(fallback(setting)); environment: \(setting.environment))")
            }
        }
        if let pointer { lines += ["", pointer] }
        return lines.joined(separator: "\n")
    }

    private func fallback(_ setting: Setting) -> String {
        guard let text = setting.fallback(in: profile), !text.isEmpty else { return "none" }
        // The demonstration's app is one long word.
        return text.count <= 60 ? text : "see carillon check-config --dev"
    }

    private static func indented(_ text: String) -> [String] {
        var lines: [String] = []
        var line = "     "
        for word in text.split(separator: " ") {
            if line.count + word.count >= 80 {
                lines.append(line)
                line = "     "
            }
            line += " " + word
        }
        return lines + [line]
    }
}
