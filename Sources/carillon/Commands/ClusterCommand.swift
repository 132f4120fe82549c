import ArgumentParser
import Redis
import Shared

/// `carillon cluster`: which hubs share ordinary channels.
struct ClusterCommand: SettingsReader {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Show the hubs that share ordinary channels by Redis: who is there, and whether they are heard.",
        discussion: """
            It asks Redis, not the hubs. It needs the settings of redis that the hubs have. It judges Redis as hubs do, and \
            its exit status is 1 if something is wrong.
            """)

    static let settingsHelp = SettingsHelp(
        groups: [SettingGroup("Several hubs", SettingsTable.all.filter { $0.key.hasPrefix("redis.") })],
        profile: .serve,
        pointer: "Other settings are accepted, and not used: carillon check-config --help lists them.")

    @OptionGroup var arguments: SettingsArguments

    func run() throws {
        let effective = try arguments.effective(.serve)
        let group = effective.values.group
        try group.check(effective)
        guard let redis = try group.redis() else { throw effective.missing(SettingsTable[\.group.url]) }
        var settings = SharedSettings(redis)
        settings.name = group.name
        let found: HubGroup
        do {
            found = try HubGroup.ask(settings)
        } catch {
            throw Failure("Redis at \(redis.url.summary): \(error)")
        }
        for line in Self.lines(found, settings) { say(line) }
        let faults = Self.faults(found)
        if !faults.isEmpty { throw Failure(lines: faults) }
    }

    /// What is wrong; empty: all is well.
    static func faults(_ group: HubGroup) -> [String] {
        var faults = group.faults.map { "Redis is not fit for hubs: \($0)" }
        for member in group.members where member.isLate {
            faults.append("hub \(member.number) was not heard for \(seconds(member.silence))")
        }
        if !group.servesTheSame {
            faults.append(
                "hubs serve other apps, or have other secrets, limits or switches for them: give all the same")
        }
        if !group.members.contains(where: { !$0.isLate }) { faults.append("no hub is there") }
        return faults
    }

    static func lines(_ group: HubGroup, _ settings: SharedSettings) -> [String] {
        let most = group.memory.most > 0 ? " of \(mebibytes(group.memory.most))" : ""
        var lines = ["\(group.serverVersion) at \(settings.redis.url.summary), \(mebibytes(group.memory.used))\(most)"]
        guard let age = group.beatAge else {
            return lines + ["no hub was ever here under the name \(settings.name)"]
        }
        lines.append(
            "channels \(group.channelCount), webhooks waiting \(group.waitingWebhooks), last beat \(seconds(age)) ago")
        for member in group.members {
            let about = member.about.isEmpty ? "(has not said)" : member.about
            let note = member.isLate ? ", and is taken for dead" : ""
            lines.append("hub \(member.number)  \(about)  heard \(seconds(member.silence)) ago\(note)")
        }
        let count = group.members.count { !$0.isLate }
        lines.append("\(count) \(count == 1 ? "hub" : "hubs")")
        return lines
    }

    private static func seconds(_ time: Duration) -> String {
        let tenths = time.components.seconds * 10 + time.components.attoseconds / 100_000_000_000_000_000
        return "\(tenths / 10).\(tenths % 10) s"
    }

    private static func mebibytes(_ bytes: Int) -> String {
        "\((bytes + (1 << 19)) >> 20) MiB"
    }
}
