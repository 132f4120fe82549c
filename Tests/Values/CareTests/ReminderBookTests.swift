import Testing

@testable import Care

/// Single rules of the model of reminders.
struct ReminderBookTests {
    private var book = ReminderBook(home: ReminderWeek.zones[0], zones: ReminderWeek.zones)
    private var made = 0

    private mutating func act(_ action: ReminderAction, by device: Identifier = "phone") -> ReminderAnswer {
        made += 1
        return book.apply(
            ReminderEnvelope(Identifier("k\(made)"), device: device, action), at: 1_772_442_770, newID: "new")
    }

    private static func fields(_ zoneMode: String, _ zone: String? = nil) -> ReminderFields {
        var fields = ReminderFields([
            .product: .text("p1"), .time: .number(480), .repeats: .text("daily"),
            .zoneMode: .text(Identifier(zoneMode)),
        ])
        if let zone { fields[.zone] = .text(Identifier(zone)) }
        return fields
    }

    /// A rule that follows its user is where the user is: a wish for another zone alone is no change, and nobody is told.
    @Test mutating func ruleThatFollowsTakesNoOtherZone() {
        let (home, away) = (ReminderWeek.zones[0].name, ReminderWeek.zones[1].name)
        #expect(act(.create(id: "rule", clientID: nil, Self.fields("follow"))).status == .applied)
        #expect(act(.update("rule", ReminderFields([.zone: .text(away)]), base: nil)).status == .noop)
        #expect(book.rules["rule"]?.rev == 1 && book.top == 1)
        let both = act(.update("rule", ReminderFields([.zone: .text(away), .label: .text("a")]), base: 1))
        #expect(both.status == .applied)
        #expect(book.rules["rule"]?.fields[.zone] == .text(home) && book.rules["rule"]?.rev == 2 && book.top == 2)
    }

    /// The zone was wished for a rule that stood still. Another device made it follow meanwhile.
    @Test mutating func zoneThatIsKeptForRuleThatFollowsChangesNothing() {
        let away = ReminderWeek.zones[1].name
        _ = act(.create(id: "rule", clientID: nil, Self.fields("fixed")))
        _ = act(.delete("rule", base: nil))
        #expect(act(.create(id: "rule", clientID: nil, Self.fields("fixed", away))).status == .conflict)
        #expect(act(.create(id: "rule", clientID: nil, Self.fields("follow"))).status == .conflict)
        #expect(act(.resolve("k4", .merge, merged: nil, base: nil), by: "watch").status == .applied)
        let top = book.top
        #expect(act(.resolve("k3", .keepLocal, merged: nil, base: 1)).status == .noop)
        #expect(book.top == top && book.rules["rule"]?.rev == 2)
    }
}
