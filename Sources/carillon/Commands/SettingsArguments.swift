import ArgumentParser
import FoundationEssentials

/// The settings among a command's arguments: every option of `SettingsTable`, and `--config FILE`.
///
/// They are collected unparsed and read with the table, so no option is declared twice.
struct SettingsArguments: ParsableArguments {
    @Argument(
        parsing: .allUnrecognized,
        help: ArgumentHelp("Settings, as listed below.", valueName: "settings"))
    var rest: [String] = []

    var sources: SettingsSources {
        SettingsSources(arguments: rest, environment: ProcessInfo.processInfo.environment)
    }

    func effective(_ profile: SettingsProfile) throws -> EffectiveSettings {
        try EffectiveSettings(sources, profile: profile)
    }
}
