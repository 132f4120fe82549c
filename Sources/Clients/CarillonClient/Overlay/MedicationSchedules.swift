import Care
import JSON

/// What frequency and times make of a medication's schedules, as the hub does it
/// (sql/functions/72_care_medication_act.sql).
struct MedicationSchedules {
    /// The user's zone.
    let zone: String
    /// When the person acted.
    let at: Timestamp
    /// Whether a schedule of an id has or had doses lately.
    let hadDoses: (String) -> Bool

    /// A time of day that is asked for, and how it repeats.
    private struct Wish {
        var time: String?
        var repeats: String
        var weekday: Int64?

        var members: [JSONTree.Member] {
            [
                .init("time", .text(time)), .init("repeat", .string(repeats)),
                .init("repeatOn", weekday.map { JSONTree.array([.integer($0)]) } ?? .null),
            ]
        }
        var medicationTime: MedicationTime {
            MedicationTime(MedicationSchedules.minute(time), repeats: "\(repeats) \(weekday.map { [$0] } ?? [])")
        }
    }

    /// A new medication's schedules.
    func begun(_ payload: JSONTree) -> [JSONTree] {
        let id = payload["id"]?.string ?? ""
        let shared = payload.members.filter {
            ["dose", "windowMinutes", "startsOn", "endsOn", "timezone", "tzMode"].contains($0.name)
                && payload[$0.name] != nil
        }
        let named = payload["scheduleIds"]?.elements ?? []
        return (wishes(payload) ?? []).enumerated().map { index, wish in
            let own = index < named.count ? named[index].string : nil
            return Self.new(own ?? OccurrenceID.schedule(of: id, index + 1), of: id, shared + wish.members)
        }
    }

    /// A medication's schedules after a change.
    func changed(_ payload: JSONTree, _ medication: JSONTree) -> [JSONTree] {
        let (schedules, id) = (medication["schedules"]?.elements ?? [], medication["id"]?.string ?? "")
        let dose = payload.has("dose") ? [JSONTree.Member("dose", payload["dose"] ?? .null)] : []
        let isSame =
            payload["times"] == nil && payload["frequency"]?.string == medication["frequency"]?.string
        let own = payload.setting([.init("startsOn", .null), .init("timezone", .null)])
        guard !isSame, let wishes = wishes(own) else { return schedules.map { $0.setting(dose) } }
        let present = schedules.sorted {
            ($0["time"]?.string ?? "~", $0["id"]?.string ?? "") < ($1["time"]?.string ?? "~", $1["id"]?.string ?? "")
        }
        let times = present.map(medicationTime)
        let pairs = MedicationTime.pairs(times, wishes.map(\.medicationTime))
        var ended = present.indices.filter { !pairs.contains($0) && !times[$0].isOver }[...]
        var taken = Set(present.compactMap { $0["id"]?.string })
        return zip(wishes, pairs).map { wish, old in
            if let old { return present[old].setting(wish.members + dose) }
            let replaced = ended.popFirst()
            let sibling = replaced ?? pairs.compactMap { $0 }.first
            let like = inherited(replaced.map { present[$0] }, sibling.map { present[$0] })
            var n = 1
            var new = OccurrenceID.schedule(of: id, n)
            while taken.contains(new) || hadDoses(new) {
                n += 1
                new = OccurrenceID.schedule(of: id, n)
            }
            taken.insert(new)
            return Self.new(new, of: id, like + wish.members + dose)
        }
    }

    /// What a schedule that begins has of the one whose place it takes, or else of one that stays.
    private func inherited(_ replaced: JSONTree?, _ sibling: JSONTree?) -> [JSONTree.Member] {
        let names: Set<String> = ["windowMinutes", "endsOn", "timezone", "tzMode"]
        var members = (sibling?.members ?? []).filter { names.contains($0.name) }
        if let dose = replaced?["dose"] { members.append(.init("dose", dose)) }
        if let start = sibling?["startsOn"]?.string, let day = TimeText.day(start),
            day > today(sibling?["timezone"]?.string ?? zone)
        {
            members.append(.init("startsOn", .string(start)))
        }
        return members
    }

    /// What the app calls a medication's schedules together; nil where there are none.
    static func frequency(_ schedules: [JSONTree]) -> String? {
        let repeats = schedules.map { $0["repeat"]?.string ?? "daily" }
        if repeats.isEmpty { return nil }
        if repeats.allSatisfy({ $0 == "as_needed" }) { return "as_needed" }
        if repeats.count <= 2, repeats.allSatisfy({ $0 == "daily" }) {
            return repeats.count == 1 ? "daily" : "twice_daily"
        }
        return repeats.count == 1 && schedules[0]["repeatOn"]?.elements.count == 1 ? "weekly" : "custom"
    }

    private static func new(_ id: String, of medication: String, _ members: [JSONTree.Member]) -> JSONTree {
        JSONTree.object([.init("id", .string(id))]).setting(
            members + [
                .init("productId", .string(medication)), .init("rev", .integer(0)), .init("enabled", .bool(true)),
            ])
    }

    /// Nil where nothing is said of times.
    private func wishes(_ payload: JSONTree) -> [Wish]? {
        let frequency = payload["frequency"]?.string
        let named: [String] = (payload["times"]?.elements ?? []).compactMap(\.string).sorted()
        guard frequency != "custom", frequency != nil || !named.isEmpty else { return nil }
        let usual: [String?] =
            frequency == "twice_daily" ? ["08:00", "20:00"] : frequency == "as_needed" ? [nil] : ["08:00"]
        let times: [String?] = named.isEmpty ? usual : named
        let repeats = frequency == "weekly" ? "custom" : frequency == "as_needed" ? "as_needed" : "daily"
        let start = payload["startsOn"]?.string.flatMap { TimeText.day($0) }
        let day = start ?? today(payload["timezone"]?.string ?? zone)
        let weekday = payload["repeatOn"]?.elements.first?.integer ?? Int64(((day.days + 3) % 7 + 7) % 7 + 1)
        return times.map { Wish(time: $0, repeats: repeats, weekday: frequency == "weekly" ? weekday : nil) }
    }

    private func today(_ zone: String) -> LocalDate { at.date(utcOffset: Zones.offset(zone, at) ?? 0) }

    private func medicationTime(_ schedule: JSONTree) -> MedicationTime {
        let end = schedule["endsOn"]?.string.flatMap { TimeText.day($0) }
        let days = schedule["repeatOn"]?.elements.compactMap(\.integer) ?? []
        return MedicationTime(
            Self.minute(schedule["time"]?.string), repeats: "\(schedule["repeat"]?.string ?? "daily") \(days)",
            isPaused: schedule["enabled"]?.flag == false,
            isOver: end.map { $0 < today(schedule["timezone"]?.string ?? zone) } ?? false)
    }

    private static func minute(_ time: String?) -> Int? {
        let parts = (time ?? "").split(separator: ":").compactMap { Int($0) }
        return parts.count < 2 ? nil : parts[0] * 60 + parts[1]
    }
}
