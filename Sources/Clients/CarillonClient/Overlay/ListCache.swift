/// Reminders and medications as they were shown last: they change seldom, and are shown after each act.
struct ListCache: Sendable {
    /// All that a list is made of: as long as it is the same, the list is.
    private struct Ground: Equatable {
        let turns: [Int?]
        let rows: [Int]
        let zone: String
        let isThere: Bool
        /// Where actions are folded, the next times depend on the clock.
        let second: Int?
    }

    private var reminders: (ground: Ground, value: CarillonReminders?)?
    private var medications: (ground: Ground, value: CarillonMedications?)?

    mutating func reminders(_ mirror: Mirror, zone: String, channel: String, now: Int) -> CarillonReminders? {
        let isFolded = !mirror.index.open(.reminders).isEmpty
        let ground = Ground(
            turns: [mirror.turns[.reminder], mirror.turns[.reminderDay]],
            rows: [mirror.rowTurn, mirror.index.turns[.reminders] ?? 0], zone: zone,
            isThere: mirror.positions[channel] != nil, second: isFolded ? now : nil)
        if let reminders, reminders.ground == ground { return reminders.value }
        let value = ReminderOverlay.value(mirror, zone: zone, channel: channel, now: now)
        reminders = (ground, value)
        return value
    }

    mutating func medications(_ mirror: Mirror) -> CarillonMedications? {
        let ground = Ground(
            turns: [mirror.turns[.medication], mirror.turns[.stack], mirror.turns[.settings]],
            rows: [mirror.rowTurn, mirror.index.turns[.lists] ?? 0], zone: "", isThere: true, second: nil)
        if let medications, medications.ground == ground { return medications.value }
        let value = MedicationOverlay.value(mirror)
        medications = (ground, value)
        return value
    }
}
