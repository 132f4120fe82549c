import ArgumentParser
import FoundationEssentials

/// The settings among a command's arguments: every option of `SettingsTable`, and `--config FILE`.
///
/// They are collected unparsed and read by the table, so that an option needs no second declaration.
struct SettingsArguments: ParsableArguments {
    @Argument(
        parsing: .allUnrecognized,
        help: ArgumentHelp("Settings, as listed below.", valueName: "settings"))
    var rest: [String] = []

    /// Command line, environment and file.
    var sources: SettingsSources {
        SettingsSources(arguments: rest, environment: ProcessInfo.processInfo.environment)
    }

    /// Asks all of them.
    func effective(_ profile: SettingsProfile) throws -> EffectiveSettings {
        try EffectiveSettings(sources, profile: profile)
    }
}
