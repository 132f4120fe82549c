import HTTP
import Store
import Sync

// Seed 001 §4: reminder rules and their single occurrences.

extension RouteTable {
    private static let rule = RouteParameter("id", .text(1...65_536))
    private static let occurrence = RouteParameter("occurrenceId", .text(1...65_536))
    private static let noTime = ProductRoute.Failure(
        .unprocessableContent, "from must be an instant such as 2025-11-20T08:00:00Z.")
    private static let noRule = ProductRoute.Failure(
        .unprocessableContent, "Send a rule with a time or a preset; n is from 1 to 30, and from is an instant.")

    static let reminders: [ProductRoute] = [
        .read("/users/{userId}/reminders", "reminders", "sync.reminders")
            .described("The reminder rules, each with its next occurrences", "Reminders"),
        .action(.post, "/reminders", .whole(type: "createReminder"), by: .userOfToken)
            .described("Adds a reminder rule", "PlainAnswer", body: "NewReminder"),
        .question(
            "/reminders/preview", "reminder_preview", "sync.preview_reminder", by: .userOfToken,
            failures: ["UQ004": noRule]
        ).described("The next times of a rule that is not stored", "ReminderPreview", body: "PreviewedReminder"),
        .changes("/sync/reminders", "reminders", "sync.reminders", most: 200, by: .userOfToken)
            .described(
                "Carries out an offline queue, and reads what is there then", "ReminderSync", body: "ReminderQueue"),
        .read(
            "/reminders/{id}", "reminder", "sync.reminder",
            [
                rule, RouteParameter("n", .integer(1...30), absence: .value("10")),
                RouteParameter("from", .text(1...64)),
            ], by: .userOfToken, missing: "The user has no such reminder.", failures: ["UQ003": noTime]
        ).described("A reminder rule with its next occurrences", "Reminder"),
        .action(.patch, "/reminders/{id}", .whole(type: "updateReminder"), [rule], by: .userOfToken)
            .described("Changes a reminder rule, or one occurrence of it", "PlainAnswer", body: "ReminderChange"),
        .action(.delete, "/reminders/{id}", .whole(type: "deleteReminder"), [rule], by: .userOfToken)
            .described("Deletes a reminder rule", "PlainAnswer"),
        .action(
            .post, "/reminders/{id}/enable", .whole(type: "updateReminder"), [rule], saying: [("enabled", "true")],
            by: .userOfToken
        ).described("Enables a reminder rule", "PlainAnswer", body: "ActionObject"),
        .action(
            .post, "/reminders/{id}/disable", .whole(type: "updateReminder"), [rule], saying: [("enabled", "false")],
            by: .userOfToken
        ).described("Disables a reminder rule", "PlainAnswer", body: "ActionObject"),
        .action(
            .patch, "/reminders/occurrences/{occurrenceId}", .whole(type: "setReminderOccurrence"), [occurrence],
            by: .userOfToken
        ).described("Cancels, brings back or moves one occurrence", "PlainAnswer", body: "OccurrenceChange"),
        .action(
            .delete, "/reminders/occurrences/{occurrenceId}", .whole(type: "setReminderOccurrence"), [occurrence],
            saying: [("enabled", "false")], by: .userOfToken
        ).described("Cancels one occurrence", "PlainAnswer"),
        .action(
            .post, "/reminders/occurrences/{occurrenceId}/snooze", .whole(type: "snoozeReminder"), [occurrence],
            by: .userOfToken
        ).described("Snoozes one occurrence", "PlainAnswer", body: "Snooze"),
        .action(
            .post, "/reminders/occurrences/{occurrenceId}/enable", .whole(type: "setReminderOccurrence"), [occurrence],
            saying: [("enabled", "true")], by: .userOfToken
        ).described("Brings one occurrence back", "PlainAnswer", body: "ActionObject"),
        .action(
            .post, "/reminders/occurrences/{occurrenceId}/disable", .whole(type: "setReminderOccurrence"), [occurrence],
            saying: [("enabled", "false")], by: .userOfToken
        ).described("Cancels one occurrence, as DELETE does", "PlainAnswer", body: "ActionObject"),
    ]
}
