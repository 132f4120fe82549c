import Reactor

/// The set of defaults.
enum SettingsProfile: Sendable {
    case serve
    /// `carillon dev`: provides an application.
    case development
}

/// The text of each setting after all sources were read, and its source.
struct EffectiveSettings: Sendable {
    struct Entry: Sendable {
        let text: String
        /// For people, such as "environment CARILLON_LISTEN" or "default".
        let source: String
        /// The configuration file that sets it; nil for another source.
        var file: String?
    }

    /// By key. Settings with neither value nor default have no entry.
    private(set) var entries: [String: Entry] = [:]
    /// The parsed values, each checked by itself.
    private(set) var values = Settings()
    let profile: SettingsProfile
    /// Begins each secret in the files of examples. All who read them know these.
    static let placeholder = "change-me"
    private(set) var warnings: [String] = []
    /// Of one setting; what is beyond is counted.
    private static let problemsMax = 20

    /// Reads every setting from all sources and parses every value.
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
                    Entry(text: $0, source: "\(source.origin) \(source.name(setting))", file: source.file)
                }
            }.first
            let fallback = setting.fallback(in: profile).map { Entry(text: $0, source: "default") }
            guard let entry = found ?? fallback else { continue }
            entries[setting.key] = entry
            if found?.text.contains(Self.placeholder) == true {
                problems.append(
                    """
                    \(entry.source): \(setting.key) has "\(Self.placeholder)", which stands in an example: put your own in \
                    its place
                    """)
                continue
            }
            if let file = entry.file, setting.shown(entry.text) != entry.text { secrets.insert(file) }
            do {
                try setting.read(entry.text, &values)
            } catch {
                let all = error.all
                for bad in all.prefix(Self.problemsMax) {
                    let what =
                        bad.part
                        ?? "\(SettingMask.shown(bad: entry.text, of: setting)) is not a value of \(setting.key), which"
                    problems.append("\(entry.source): \(what) must be \(bad.mustBe)")
                }
                if all.count > Self.problemsMax {
                    problems.append("\(entry.source): \(all.count - Self.problemsMax) more in \(setting.key)")
                }
            }
        }
        guard problems.isEmpty else { throw Failure(lines: problems, status: .configuration) }
        warnings = secrets.sorted().compactMap { SecretFile.warning($0) }
    }

    /// The source of a setting's value; "default" also when there is no value.
    func source(of setting: Setting) -> String { entries[setting.key]?.source ?? "default" }

    func failure(_ setting: Setting, _ words: String) -> Failure {
        Failure("\(source(of: setting)): \(words)", status: .configuration)
    }

    func missing(_ setting: Setting) -> Failure {
        Failure(
            "\(setting.key) is not set: give \(setting.option), \(setting.environment) or \"\(setting.key)\" in the "
                + "configuration file", status: .configuration)
    }
}
