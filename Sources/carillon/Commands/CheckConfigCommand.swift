import ArgumentParser
import FoundationEssentials

/// `carillon check-config`: prints the configuration as the hub would see it.
struct CheckConfigCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Print the settings in effect, with the source of each value. Secrets are hidden.",
        discussion: "It reads the files that settings name, and warns of what has no effect. It connects to nothing.")

    static let settingsHelp = SettingsHelp.all(.serve)

    @Flag(help: "Use the defaults of `carillon dev`.")
    var dev = false

    @Flag(help: ArgumentHelp("Print the page deploy/settings.md.", visibility: .hidden))
    var markdown = false

    @OptionGroup var arguments: SettingsArguments

    func run() throws {
        if markdown {
            say(Self.page)
            return
        }
        let effective = try arguments.effective(dev ? .development : .serve)
        for line in Self.lines(effective) { say(line) }
        let settings = try Settings(effective)
        let logger = LogOutput.logger("carillon", level: settings.log.level, format: settings.log.format)
        for warning in settings.warnings { complain("warning: \(warning)") }
        for notice in settings.notices + settings.lowPorts { complain("notice: \(notice)") }
        try settings.webhooks.checkFile()
        _ = try settings.push.configuration(settings)
        _ = try settings.group.redis()
        if let tls = try settings.tls.server() {
            for warning in tls.warnings() { complain("warning: \(warning)") }
        }
        _ = try HubProcess.tokenVerifier(settings.jwt, logger)
    }

    /// A line for each setting: key, value, source.
    static func lines(_ effective: EffectiveSettings) -> [String] {
        let cells = SettingsTable.all.map { setting in
            let entry = effective.entries[setting.key]
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

    /// The page deploy/settings.md.
    static let page: String = {
        let groups = SettingsTable.groups
        let anchors = groups.map { "[\($0.title)](#\($0.title.lowercased().replacing(" ", with: "-")))" }
        let head = """
            # Settings

            For operators: every setting of `carillon serve` and `carillon dev`. The program writes this page
            (`carillon check-config --markdown`).

            \(anchors.joined(separator: " ·\n"))

            The command line wins over the environment, and that over the configuration file. On the command line, a key such as
            `jwt.keysFile` is `--jwt-keys-file`. In the file, it is `{"jwt": {"keysFile": "…"}}`. More is in
            [where settings come from](README.md#where-settings-come-from).

            - Times are `500ms`, `30s`, `2m`, `1h`, or seconds. Sizes are bytes, `64KiB` or `1MiB`.
            - A limit is the largest number allowed.
            - "dev" is the default under `carillon dev`, where it differs.
            """
        return head
            + groups.map { group in
                "\n\n## \(group.title)\n\n| key in the file | environment | default | meaning |\n|---|---|---|---|\n"
                    + group.settings.map(row).joined(separator: "\n")
            }.joined()
    }()

    private static func row(_ setting: Setting) -> String {
        var fallback = setting.fallback.map { $0.isEmpty ? "none" : "`\($0)`" } ?? "none"
        let help = setting.help.replacing("(see Apps)", with: "(see [apps](README.md#apps))")
        if let own = setting.developmentFallback { fallback += "; dev: `\(own)`" }
        return "| `\(setting.key)` | `\(setting.environment)` | \(fallback) | \(help) |"
    }
}
