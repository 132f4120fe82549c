import ArgumentParser
import FoundationEssentials

/// `carillon migrate`: brings the database of `DATABASE_URL` up to this program.
struct MigrateCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Bring the database to the version of this program: roles, migrations, functions.",
        discussion: """
            DATABASE_URL names the role carillon_owner, or a superuser. Only a superuser, or a role with CREATEROLE that owns \
            the database, can make the roles. Migrations that were applied are compared with this program's. A database \
            that is newer than this program is refused.
            """)

    static let settingsHelp = SettingsHelp(
        groups: [SettingGroup("PostgreSQL", [SettingsTable[\.database.url]])], profile: .serve,
        pointer: "Other settings are accepted, and not used: carillon check-config --help lists them.")

    @Flag(help: "Print what would be done, and change nothing.")
    var dryRun = false

    @Flag(help: "Print each migration and its state, and change nothing.")
    var status = false

    @Flag(
        help: """
            Migrate, then begin a new epoch: every device fetches a snapshot. Use it after database files were put back as \
            they were. The hub notices a restored dump, a recovery, a copy and a promotion by itself.
            """)
    var newEpoch = false

    @OptionGroup var arguments: SettingsArguments

    func validate() throws {
        guard [status, dryRun, newEpoch].filter({ $0 }).count < 2 else {
            throw ValidationError("--status, --dry-run and --new-epoch exclude one another: give only one of them")
        }
    }

    func run() throws {
        let effective = try arguments.effective(.serve)
        guard let url = effective.values.database.url else { throw effective.missing(SettingsTable[\.database.url]) }
        let migrator = try Migrator(url: url, files: try SQLFileSet.embedded())
        if status {
            let status = try migrator.status()
            for line in Self.table(status) { say(line) }
            try migrator.check(status)
        } else if dryRun {
            let status = try migrator.status()
            try migrator.check(status)
            for line in Self.plan(status, missingRoles: try migrator.missingRoles()) { say(line) }
        } else {
            let makesHubRole = try migrator.missingRoles().contains(DevelopmentCluster.hub)
            let status = try migrator.migrate { say($0) }
            say("the database is at migration \(status.lines.last?.version ?? 0)")
            if newEpoch {
                let epoch = try migrator.beginEpoch()
                say("the epoch is now \(epoch): devices fetch snapshots, connected ones at once")
            }
            let hasPassword = try migrator.hubRoleHasPassword() ?? !makesHubRole
            if !hasPassword { for line in Self.passwordAdvice { say(line) } }
        }
    }

    /// What to do when PostgreSQL requires a password from the hub.
    static let passwordAdvice = [
        "the role \(DevelopmentCluster.hub) has no password. If pg_hba.conf asks for one:",
        "  in psql, as a superuser: \\password \(DevelopmentCluster.hub)",
        "  for carillon serve: DATABASE_URL=postgresql://\(DevelopmentCluster.hub):PASSWORD@HOST/DATABASE",
    ]

    static func table(_ status: Migrator.Status) -> [String] {
        let width = status.lines.map(\.name.count).max() ?? 0
        let lines = status.lines.map { line in
            let state =
                switch line.state {
                case .applied(let time): "applied \(time) UTC"
                case .pending: "pending"
                case .changed: "applied, but the file has changed since"
                case .unknown: "applied by a newer program"
                }
            return line.name.padded(to: width) + "  " + state
        }
        return lines + [
            "functions".padded(to: width) + "  "
                + (status.functionsCurrent ? "current" : "pending")
        ] + status.complaints
    }

    static func plan(_ status: Migrator.Status, missingRoles: [String]) -> [String] {
        guard !status.isCurrent else { return ["nothing to do"] + status.complaints }
        return status.complaints + missingRoles.map { "would make the role \($0)" }
            + status.pending.map { "would apply \($0.name)" } + [
                "would apply the functions"
            ]
    }
}
