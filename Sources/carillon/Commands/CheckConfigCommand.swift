import ArgumentParser
import FoundationEssentials

/// `carillon check-config`: prints the configuration as the hub would see it.
struct CheckConfigCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Print the effective configuration, with the source of each value and secrets masked.")

    static let settingsHelp = SettingsHelp.all(.serve)

    @Flag(help: "With the defaults of `carillon dev`.")
    var dev = false

    @Flag(help: ArgumentHelp("Print the table of settings for deploy/README.md.", visibility: .hidden))
    var markdown = false

    @OptionGroup var arguments: SettingsArguments

    func run() throws {
        if markdown {
            for line in Self.markdownTable { say(line) }
            return
        }
        let effective = try arguments.effective(dev ? .development : .serve)
        for line in Self.lines(effective) { say(line) }
        let settings = try Settings(effective)
        let logger = LogOutput.logger("carillon", level: settings.logLevel, format: settings.logFormat)
        for warning in settings.warnings { complain("warning: \(warning)") }
        for notice in settings.notices { complain("notice: \(notice)") }
        try settings.webhooks.checkFile()
        if let tls = try settings.tls.server() {
            for warning in tls.warnings() { complain("warning: \(warning)") }
        }
        _ = try HubProcess.tokenVerifier(settings.jwt, logger)
    }

    /// A line for each setting: key, value, source.
    static func lines(_ effective: EffectiveSettings) -> [String] {
        let cells = SettingsTable.all.map { setting in
            let entry = effective.inEffect(setting)
            let value = entry.map { setting.shown($0.text) }
            return (setting.key, value.map { $0.isEmpty ? "(none)" : $0 } ?? "(not set)", entry?.source ?? "default")
        }
        let keyWidth = cells.map(\.0.count).max() ?? 0
        let valueWidth = min(40, cells.map(\.1.count).max() ?? 0)
        return cells.map { key, value, source in
            key.padded(to: keyWidth) + "  "
                + value.padded(to: valueWidth) + "  " + source
        }
    }

    /// The settings table in deploy/README.md.
    static let markdownTable: [String] = {
        let head = ["| key in the file | environment | default | meaning |", "|---|---|---|---|"]
        return head
            + SettingsTable.all.map { setting in
                var fallback = setting.fallback.map { $0.isEmpty ? "none" : "`\($0)`" } ?? "–"
                if let own = setting.developmentFallback { fallback += "; dev: `\(own)`" }
                return "| `\(setting.key)` | `\(setting.environment)` | \(fallback) | \(setting.help) |"
            }
    }()
}
