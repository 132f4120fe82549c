import Reactor

/// Which defaults apply.
enum SettingsProfile: Sendable {
    case serve
    /// `carillon dev`: an application is given.
    case development
}

/// The text of each setting after all sources were asked, and where it came from.
struct EffectiveSettings: Sendable {
    struct Entry: Sendable {
        let text: String
        /// For people, such as "environment CARILLON_LISTEN" or "default".
        let source: String
        /// The configuration file that says so; nil where something else does.
        var file: String?
    }

    /// By key; settings without a value and a default have no entry.
    private(set) var entries: [String: Entry] = [:]
    /// What the texts say, each by itself.
    private(set) var values = Settings()
    let profile: SettingsProfile
    /// What the operator should know about the sources.
    private(set) var warnings: [String] = []

    /// Asks all sources for every setting and reads every value.
    ///
    /// - Throws: one failure with a line for each unknown name and each bad value.
    init(_ sources: SettingsSources, profile: SettingsProfile) throws(Failure) {
        self.profile = profile
        var problems: [String] = []
        var secrets: Set<String> = []
        let asked = sources.read(problems: &problems)
        for setting in SettingsTable.all {
            let found = asked.lazy.compactMap { source in
                source.texts[setting.key].map {
                    Entry(text: $0, source: "\(source.place) \(source.name(setting))", file: source.file)
                }
            }.first
            let fallback = setting.fallback(in: profile).map { Entry(text: $0, source: "default") }
            guard let entry = found ?? fallback else { continue }
            entries[setting.key] = entry
            if let file = entry.file, setting.shown(entry.text) != entry.text { secrets.insert(file) }
            do {
                try setting.read(entry.text, &values)
            } catch {
                let what =
                    error.part
                    ?? "\(SettingMask.shown(bad: entry.text, of: setting)) is no value of \(setting.key), which"
                problems.append("\(entry.source): \(what) must be \(error.mustBe)")
            }
        }
        guard problems.isEmpty else { throw Failure(lines: problems, status: .configuration) }
        warnings = secrets.sorted().compactMap { SecretFile.warning($0) }
    }

    /// The entry of a setting as it takes effect: `limits.pullQueueBytes` is lowered where the whole queue is shorter.
    func inEffect(_ setting: Setting) -> Entry? {
        let limits = values.gateway.limits
        guard setting.place == \Settings.gateway.limits.pullQueueBytesMax,
            limits.pullQueueBytesMax > limits.sendQueueBytesMax / 2
        else { return entries[setting.key] }
        return Entry(text: "\(limits.sendQueueBytesMax / 2)", source: "half of limits.sendQueueBytes")
    }

    /// Where the value of a setting came from; "default" also where it has none.
    func source(of setting: Setting) -> String { entries[setting.key]?.source ?? "default" }

    /// A failure that names where the value of a setting came from.
    func failure(_ setting: Setting, _ words: String) -> Failure {
        Failure("\(source(of: setting)): \(words)", status: .configuration)
    }

    /// Of a setting that there must be, and is not.
    func missing(_ setting: Setting) -> Failure {
        Failure(
            "\(setting.key) is not set: give \(setting.option), \(setting.environment) or \"\(setting.key)\" in the "
                + "configuration file", status: .configuration)
    }
}
