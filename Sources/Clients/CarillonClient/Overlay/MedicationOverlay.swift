import Care
import JSON

/// The list of medications with the actions that the hub has not confirmed. Doses are the hub's to make: its events tell
/// them.
struct MedicationOverlay {
    static let types: Set<String> = [
        "createMedication", "updateMedication", "archiveMedication", "createSchedule", "updateSchedule",
        "deleteSchedule", "createStack", "updateStack", "deleteStack", "updateSettings",
    ]

    /// A medication or a stack, in its place.
    private struct Item {
        var value: JSONTree
        var isPending = false

        var id: String { value["id"]?.string ?? "" }
        var schedules: [JSONTree] {
            get { value["schedules"]?.elements ?? [] }
            set {
                value = value.setting([.init("schedules", .array(newValue))])
                isPending = true
            }
        }

        /// With the frequency that its schedules come to.
        var asMedication: JSONTree {
            isPending ? value.setting([.init("frequency", .text(MedicationSchedules.frequency(schedules)))]) : value
        }

        mutating func set(_ members: [JSONTree.Member]) {
            value = value.setting(members)
            isPending = true
        }
    }

    private var items: [Item]
    private var stacks: [Item]
    private var zone: String

    /// Which medications there are, which stacks hold one, and all schedules, by id.
    struct Medicines {
        let ids: Set<String>
        let schedules: [String: JSONTree]
    }

    /// As the hub has them, and after what the hub has not confirmed.
    static func medicines(_ mirror: Mirror) -> (before: Medicines, after: Medicines) {
        var overlay = MedicationOverlay(
            items: sorted(mirror, .medication), stacks: sorted(mirror, .stack), zone: mirror.userZone ?? "UTC")
        let before = overlay.medicines
        overlay.fold(mirror)
        return (before, overlay.medicines)
    }

    private var medicines: Medicines {
        let ids = Set(items.map(\.id))
        let filled = stacks.filter { stack in
            stack.value["items"]?.elements.contains { ids.contains($0["productId"]?.string ?? "") } ?? false
        }
        let schedules = (items + stacks).flatMap(\.schedules).compactMap { one in one["id"]?.string.map { ($0, one) } }
        return Medicines(
            ids: ids.union(filled.map(\.id)), schedules: Dictionary(schedules) { first, _ in first })
    }

    private mutating func fold(_ mirror: Mirror) {
        for row in mirror.counting(.lists) {
            let acted = TimeText.instant(row.clientTime) ?? Timestamp(microseconds: 0)
            let times = MedicationSchedules(zone: zone, at: acted) { id in
                mirror.all(.dose).values.contains { $0.value?["scheduleId"]?.string == id }
            }
            fold(row.type, row.payload, times)
        }
    }

    /// Nil: no snapshot is here yet.
    static func value(_ mirror: Mirror) -> CarillonMedications? {
        guard let zone = mirror.userZone else { return nil }
        var overlay = MedicationOverlay(
            items: sorted(mirror, .medication), stacks: sorted(mirror, .stack), zone: zone)
        overlay.fold(mirror)
        let conflicted = mirror.conflicted
        return CarillonMedications(
            items: overlay.items.map { one in
                let hasConflict = conflicted.contains("medication:\(one.id)")
                return CarillonMedication(one.asMedication, isPending: one.isPending, hasConflict: hasConflict)
            },
            stacks: overlay.stacks.map { one in
                let hasConflict = conflicted.contains("stack:\(one.id)")
                return CarillonStack(one.value, isPending: one.isPending, hasConflict: hasConflict)
            }, timeZone: overlay.zone)
    }

    private static func sorted(_ mirror: Mirror, _ kind: EntityKind) -> [Item] {
        mirror.all(kind).values.compactMap(\.value)
            .map { ($0["createdAt"]?.string ?? "", Identifier($0["id"]?.string ?? ""), $0) }
            .sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map { Item(value: $0.2) }
    }

    private mutating func fold(_ type: String, _ payload: JSONTree, _ times: MedicationSchedules) {
        let id = payload["id"]?.string ?? ""
        let named = payload.members.filter { ["name", "strength", "form"].contains($0.name) }
        switch type {
        case "createMedication":
            guard !items.contains(where: { $0.id == id }) else { return }
            let start = JSONTree.object([.init("id", .string(id)), .init("rev", .integer(0))])
            var item = Item(value: start, isPending: true)
            item.set(named)
            item.schedules = times.begun(payload)
            items.append(item)
        case "updateMedication":
            guard let index = items.firstIndex(where: { $0.id == id }) else { return }
            if payload["archived"]?.flag == true {
                items.remove(at: index)
                return
            }
            items[index].set(named)
            items[index].schedules = times.changed(payload, items[index].value)
        case "archiveMedication": items.removeAll { $0.id == id }
        case "createSchedule":
            let owner = payload["productId"]?.string ?? payload["stackId"]?.string
            change(where: .id(owner ?? "")) { item in
                guard !item.schedules.contains(where: { $0["id"]?.string == id }) else { return }
                item.schedules.append(payload.setting([.init("rev", .integer(0))]))
            }
        case "updateSchedule":
            change(where: .schedule(id)) { item in
                item.schedules = item.schedules.map { $0["id"]?.string == id ? $0.setting(payload.members) : $0 }
            }
        case "deleteSchedule":
            change(where: .schedule(id)) { item in item.schedules.removeAll { $0["id"]?.string == id } }
        case "createStack":
            guard !stacks.contains(where: { $0.id == id }) else { return }
            stacks.append(Item(value: payload.setting([.init("rev", .integer(0))]), isPending: true))
        case "updateStack":
            change(where: .id(id)) { item in
                item.set(payload.members.filter { $0.name == "name" || $0.name == "items" })
            }
        case "deleteStack": stacks.removeAll { $0.id == id }
        default: zone = payload["timezone"]?.string ?? zone
        }
    }

    /// Which medications or stacks are meant.
    private enum Choice {
        case id(String)
        /// The one with that schedule.
        case schedule(String)

        func fits(_ item: Item) -> Bool {
            switch self {
            case .id(let id): item.id == id
            case .schedule(let id): item.schedules.contains { $0["id"]?.string == id }
            }
        }
    }

    private mutating func change(where choice: Choice, _ body: (inout Item) -> Void) {
        for index in items.indices where choice.fits(items[index]) { body(&items[index]) }
        for index in stacks.indices where choice.fits(stacks[index]) { body(&stacks[index]) }
    }
}
