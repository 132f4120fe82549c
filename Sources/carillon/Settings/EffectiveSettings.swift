import Configuration
import Reactor
import Synchronization

/// Which defaults apply.
enum SettingsProfile: Sendable {
    case serve
    /// `carillon dev`: an application and every origin are given.
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
    let profile: SettingsProfile
    /// What the operator should know about the sources.
    private(set) var warnings: [String] = []

    /// Asks all sources for every row and checks every value.
    ///
    /// - Throws: one failure with a line for each unknown name and each bad value.
    init(
        _ sources: SettingsSources, profile: SettingsProfile, rows: [SettingRow] = SettingsTable.rows
    ) throws(Failure) {
        self.profile = profile
        var problems: [String] = []
        let asked = sources.read(rows: rows, problems: &problems)
        let recorder = SourceRecorder()
        let reader = ConfigReader(providers: asked.map(\.provider), accessReporter: recorder)
        for row in rows {
            if let text = reader.string(forKey: ConfigKey(row.key), isSecret: row.mask != .none) {
                let source = recorder.winner.flatMap { asked.indices.contains($0) ? asked[$0] : nil }
                let place = source.map { "\($0.place) \($0.name(row))" } ?? "unknown source"
                entries[row.key] = Entry(text: text, source: place, file: source?.file)
            } else if let fallback = row.fallback(in: profile) {
                entries[row.key] = Entry(text: fallback, source: "default")
            }
            guard let entry = entries[row.key] else { continue }
            do {
                try row.check(entry.text)
            } catch {
                if let part = error.part {
                    problems.append("\(entry.source): \(part) must be \(error.mustBe)")
                    continue
                }
                let shown = SettingMask.shown(bad: entry.text, of: row)
                problems.append("\(entry.source): \(shown) is no value of \(row.key), which must be \(error.mustBe)")
            }
        }
        guard problems.isEmpty else { throw Failure(lines: problems, status: .configuration) }
        let secrets = rows.compactMap { row in
            entries[row.key].flatMap { SettingMask.shown($0.text, of: row) == $0.text ? nil : $0.file }
        }
        warnings = Set(secrets).sorted().compactMap { SecretFile.warning($0) }
    }

    /// The value of a setting; nil where it has none.
    func value<Value>(_ setting: Setting<Value>) throws(Failure) -> Value? {
        guard let entry = entries[setting.row.key] else { return nil }
        do {
            return try setting.parse(entry.text)
        } catch {
            throw Failure(
                "\(entry.source): \(error.part ?? setting.row.key) must be \(error.mustBe)", status: .configuration)
        }
    }

    /// The value of a setting that has a default.
    func required<Value>(_ setting: Setting<Value>) throws(Failure) -> Value {
        guard let value = try value(setting) else {
            throw Failure(
                "\(setting.row.key) is not set: give \(setting.row.option), \(setting.row.environment) "
                    + "or \"\(setting.row.key)\" in the configuration file", status: .configuration)
        }
        return value
    }

    /// The entry of a row as it takes effect: `limits.pullQueueBytes` is lowered where the whole queue is shorter.
    func inEffect(_ row: SettingRow) -> Entry? {
        let (pull, whole) = (QueueSettings.pullQueueBytesMax, QueueSettings.sendQueueBytesMax)
        guard row.key == pull.row.key, let wanted = try? value(pull), let queue = try? value(whole), wanted > queue / 2
        else { return entries[row.key] }
        return Entry(text: "\(queue / 2)", source: "half of \(whole.row.key)")
    }

    /// Where the value of a setting came from; "default" also where it has none.
    func source<Value>(of setting: Setting<Value>) -> String {
        entries[setting.row.key]?.source ?? "default"
    }
}

extension SettingRow {
    /// The default under a profile.
    func fallback(in profile: SettingsProfile) -> String? {
        switch profile {
        case .serve: fallback
        case .development: developmentFallback ?? fallback
        }
    }
}

/// Learns from swift-configuration which provider a value was taken from.
private final class SourceRecorder: AccessReporter {
    private let index = Mutex<Int?>(nil)

    /// The place of the last value's provider among those asked.
    var winner: Int? { index.withLock { $0 } }

    func report(_ event: AccessEvent) {
        let found = event.providerResults.firstIndex { result in
            guard case .success(let lookup) = result.result else { return false }
            return lookup.value != nil
        }
        index.withLock { $0 = found }
    }
}
