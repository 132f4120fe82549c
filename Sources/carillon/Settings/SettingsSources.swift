import Configuration
import FoundationEssentials

/// Where settings come from, strongest first: command line, environment, file. Defaults stand behind them.
struct SettingsSources {
    /// Arguments that are settings, as `--name value` or `--name=value`.
    var arguments: [String] = []
    var environment: [String: String] = [:]

    /// What one source says, as swift-configuration looks it up.
    struct Source {
        /// For people: "the command line", "the environment", or the path of the file.
        let place: String
        /// The path of the file; nil where it is none.
        var file: String?
        let provider: any ConfigProvider
        /// What the source calls a row, to name it in errors.
        let name: @Sendable (SettingRow) -> String
    }

    /// Reads all sources, and reports every name that is none of a setting.
    ///
    /// - Parameter problems: gains a line for each unknown name, with its value and place.
    func read(rows: [SettingRow], problems: inout [String]) -> [Source] {
        let commandLine = options(rows: rows, problems: &problems)
        var sources = [
            Source(
                place: "command line", provider: provider("command line", commandLine.values), name: { $0.option }),
            Source(
                place: "environment", provider: environmentProvider(rows: rows, problems: &problems),
                name: { $0.environment }),
        ]
        if let path = commandLine.file ?? environment[SettingsTable.fileEnvironment], !path.isEmpty {
            do {
                let file = try SettingsFile(path: path)
                problems += file.problems(rows: rows)
                sources.append(
                    Source(
                        place: "file \(path)", file: path, provider: provider(path, file.values),
                        name: { file.name(of: $0.key) }))
            } catch {
                problems.append(error.description)
            }
        }
        return sources
    }

    private func options(rows: [SettingRow], problems: inout [String]) -> (values: [String: String], file: String?) {
        var values: [String: String] = [:]
        var file: String?
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            let row = rows.first { $0.option == name }
            guard row != nil || name == SettingsTable.fileOption else {
                let near = nearest(to: name, among: rows.map(\.option) + [SettingsTable.fileOption])
                problems.append("command line: unknown option \(name)\(near)")
                // Its value, if it has one, is not a mistake of its own.
                if parts.count == 1, let next = rest.first, !next.hasPrefix("-") { rest.removeFirst() }
                continue
            }
            let value: String
            if parts.count == 2 {
                value = String(parts[1])
            } else if let next = rest.first, !next.hasPrefix("--") {
                value = next
                rest.removeFirst()
            } else if row?.takes == SettingsTable.strictProtocol.row.takes {
                value = "true"
            } else {
                problems.append("command line: \(name) needs a value (\(row?.takes ?? "path"))")
                continue
            }
            if let row { values[row.key] = value } else { file = value }
        }
        return (values, file)
    }

    private func environmentProvider(rows: [SettingRow], problems: inout [String]) -> any ConfigProvider {
        var known = Set(rows.map(\.environment) + [SettingsTable.fileEnvironment])
        #if DEBUG
        known.insert(SettingsTable.failpointEnvironment)
        #endif
        for (name, value) in environment.sorted(by: { $0.key < $1.key })
        where name.hasPrefix("CARILLON_") && !known.contains(name) && !Self.isServiceLink(name) {
            let shown = SettingMask.shown(ofUnknown: name, value)
            problems.append("environment: unknown variable \(name)=\(shown)\(nearest(to: name, among: Array(known)))")
        }
        let names = Dictionary(uniqueKeysWithValues: rows.map { ($0.key, $0.environment) })
        // Where a database may be, scripts write `DATABASE_URL=` for none.
        let database = SettingsTable.databaseURL.row.environment
        let given = environment.filter { known.contains($0.key) && !($0.key == database && $0.value.isEmpty) }
        return EnvironmentVariablesProvider(environmentVariables: given).mapKeys { key in
            AbsoluteConfigKey([names[key.components.joined(separator: ".")] ?? ""])
        }
    }

    /// Whether the variable is one that Kubernetes sets for a service named carillon in all pods beside it.
    private static func isServiceLink(_ name: String) -> Bool {
        name.hasPrefix("CARILLON_SERVICE_") || name == "CARILLON_PORT" || name.hasPrefix("CARILLON_PORT_")
    }

    private func provider(_ name: String, _ values: [String: String]) -> any ConfigProvider {
        InMemoryProvider(
            name: name,
            values: Dictionary(
                uniqueKeysWithValues: values.map { key, text in
                    (AbsoluteConfigKey(ConfigKey(key)), ConfigValue(.string(text), isSecret: false))
                }))
    }
}

/// ", did you mean X?" where a name is so near to a known one that it must be a slip; else nothing.
func nearest(to name: String, among known: [String]) -> String {
    let candidates = known.map { ($0, editDistance(name.lowercased(), $0.lowercased())) }
    guard let best = candidates.min(by: { ($0.1, $0.0) < ($1.1, $1.0) }), best.1 <= max(2, name.count / 5) else {
        return ""
    }
    return ", did you mean \(best.0)?"
}

/// The number of letters to insert, delete or replace.
private func editDistance(_ first: String, _ second: String) -> Int {
    let second = Array(second)
    var row = Array(0...second.count)
    for (index, letter) in first.enumerated() {
        var diagonal = row[0]
        row[0] = index + 1
        for column in second.indices {
            let above = row[column + 1]
            row[column + 1] = min(above + 1, row[column] + 1, diagonal + (letter == second[column] ? 0 : 1))
            diagonal = above
        }
    }
    return row[second.count]
}
