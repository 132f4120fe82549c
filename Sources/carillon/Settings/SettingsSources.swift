/// The sources of settings, strongest first: command line, environment, file. Then come the defaults.
struct SettingsSources {
    /// Arguments that are settings, as `--name value` or `--name=value`.
    var arguments: [String] = []
    var environment: [String: String] = [:]

    /// Names the configuration file; not itself a key of it.
    static let fileOption = "--config"
    static let fileEnvironment = "CARILLON_CONFIG"
    #if DEBUG
    /// Makes the hub exit in the middle of an action, for crash tests: `after-commit:3`.
    static let failpointEnvironment = "CARILLON_FAILPOINT"
    #endif

    /// The values of one source.
    struct Source {
        /// For people: "command line", "environment", or the file.
        let origin: String
        /// The path of the file; nil for other sources.
        var file: String?
        let texts: [String: String]
        /// The source's name for a setting, for errors.
        let name: (Setting) -> String
    }

    /// Reads all sources, and reports every unknown name.
    ///
    /// - Parameter problems: gets a line for each unknown name, with its value and source.
    func read(problems: inout [String]) -> [Source] {
        let (options, path) = options(problems: &problems)
        var sources = [
            Source(origin: "command line", texts: options, name: \.option),
            Source(origin: "environment", texts: variables(problems: &problems), name: \.environment),
        ]
        if let path = path ?? environment[Self.fileEnvironment], !path.isEmpty {
            do throws(Failure) {
                let file = try SettingsFile(path: path)
                problems += file.problems()
                sources.append(
                    Source(origin: "file \(path)", file: path, texts: file.texts) { file.name(of: $0.key) })
            } catch {
                problems.append(error.description)
            }
        }
        return sources
    }

    private func options(problems: inout [String]) -> (texts: [String: String], file: String?) {
        var texts: [String: String] = [:]
        var file: String?
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let name = parts[0]
            let setting = SettingsTable.all.first { $0.option == name }
            guard setting != nil || name == Self.fileOption else {
                let near = nearest(to: name, among: SettingsTable.all.map(\.option) + [Self.fileOption])
                let problem = RemovedSettings.problem(name, Setting.optionName) ?? "unknown option \(name)\(near)"
                problems.append("command line: \(problem)")
                // Skip its value, if any, so that it is not reported as well.
                if parts.count == 1, let next = rest.first, !next.hasPrefix("-") { rest.removeFirst() }
                continue
            }
            let text: String
            if parts.count == 2 {
                text = parts[1]
            } else if let next = rest.first, !next.hasPrefix("--") {
                text = next
                rest.removeFirst()
            } else if setting?.takes == Form<Bool>.flag.takes {
                text = "true"
            } else {
                problems.append("command line: \(name) needs a value (\(setting?.takes ?? "path"))")
                continue
            }
            if let setting { texts[setting.key] = text } else { file = text }
        }
        return (texts, file)
    }

    private func variables(problems: inout [String]) -> [String: String] {
        var texts: [String: String] = [:]
        for setting in SettingsTable.all { texts[setting.key] = environment[setting.environment] }
        // Scripts may write `DATABASE_URL=` for no database.
        let database = SettingsTable[\.database.url].key
        if texts[database] == "" { texts[database] = nil }
        // One shell may serve both commands.
        var known = SettingsTable.all.map(\.environment) + [Self.fileEnvironment, Target.tokenVariable]
        #if DEBUG
        known.append(Self.failpointEnvironment)
        #endif
        for (name, text) in environment.sorted(by: { $0.key < $1.key })
        where name.hasPrefix("CARILLON_") && !known.contains(name) && !Self.isServiceLink(name) {
            let unknown =
                "unknown variable \(name)=\(SettingMask.shown(ofUnknown: name, text))\(nearest(to: name, among: known))"
            problems.append("environment: \(RemovedSettings.problem(name, Setting.environmentName) ?? unknown)")
        }
        return texts
    }

    /// Whether Kubernetes sets the variable: it does so in all pods beside a service named carillon.
    private static func isServiceLink(_ name: String) -> Bool {
        name.hasPrefix("CARILLON_SERVICE_") || name == "CARILLON_PORT" || name.hasPrefix("CARILLON_PORT_")
    }
}

/// ", did you mean X?" when a known name is near enough to be meant; otherwise empty.
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
