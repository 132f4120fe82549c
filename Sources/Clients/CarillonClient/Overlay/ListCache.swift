import Care

/// Reminders and medications as they were shown last: they change seldom, and are shown after each act.
struct ListCache: Sendable {
    /// All that a list is made of: as long as it is the same, the list is.
    private struct Ground: Equatable {
        let turns: [Int?]
        let rows: [Int]
        let zone: String
        let isThere: Bool
    }

    /// What was shown at a second, and until when time changes nothing of it.
    private struct Reminders {
        let ground: Ground
        let value: CarillonReminders?
        let second: Int
        let edge: Int
    }

    private var reminders: Reminders?
    private var medications: (ground: Ground, value: CarillonMedications?)?

    /// The second at which the first of the next times of reminders passes.
    var edge: Int { reminders?.edge ?? .max }

    mutating func reminders(_ mirror: Mirror, zone: String, channel: String, now: Int) -> CarillonReminders? {
        let ground = Ground(
            turns: [.reminder, .reminderDay, .medication, .stack].map { mirror.turns[$0] },
            rows: [mirror.rowTurn] + [.reminders, .lists].map { mirror.index.turns[$0] ?? 0 }, zone: zone,
            isThere: mirror.positions[channel] != nil)
        if let reminders, reminders.ground == ground, reminders.second <= now, now < reminders.edge {
            return reminders.value
        }
        let value = ReminderOverlay.value(mirror, zone: zone, channel: channel, now: now)
        let next = (value?.rules ?? []).compactMap { $0.upcoming.first?.start }.min()
        let edge = next.map { Timestamp($0).second } ?? .max
        reminders = Reminders(ground: ground, value: value, second: now, edge: edge)
        return value
    }

    mutating func medications(_ mirror: Mirror) -> CarillonMedications? {
        let ground = Ground(
            turns: [mirror.turns[.medication], mirror.turns[.stack], mirror.turns[.settings]],
            rows: [mirror.rowTurn, mirror.index.turns[.lists] ?? 0], zone: "", isThere: true)
        if let medications, medications.ground == ground { return medications.value }
        let value = MedicationOverlay.value(mirror)
        medications = (ground, value)
        return value
    }
}
