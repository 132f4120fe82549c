import CarillonClient
import Foundation
import Notifications
import Reminding

// The code of the client's page, word for word: PageTests compares.

private struct Backend: Sendable {
    func token() async throws -> String { "TOKEN" }
    func authorize(_ channel: String, _ socketID: String) async throws -> (auth: String, channelData: String?) {
        ("key:\(channel)", socketID)
    }
}

private func ask(_ question: String) async -> Bool { question.isEmpty }

private func start(hub: URL, folder: URL, backend: Backend) async throws {
    let client = try CarillonClient(
        CarillonOptions(hub: hub, key: "carillon-key", user: "demo", folder: folder) {
            try await backend.token()  // a fresh token of the user, from your backend
        })
    try await client.start()
}

private func showDoses(_ client: CarillonClient) async {
    for await today in client.today() {
        for dose in today.doses { print(dose.time, dose.product.name ?? "", dose.status.rawValue) }
        print("\(today.summary.takenCount) of \(today.summary.scheduledCount)")
    }
}

private func act(_ client: CarillonClient, _ dose: CarillonDose) async throws {
    let receipt = try await client.act(.markTaken(dose.id, note: "with water"))
    try await client.undo(key: receipt.key)

    let made = try await client.act(CarillonAction("createMedication", ["name": "Ramipril", "times": ["08:00"]]))
    print(made.id ?? "")  // the client has made it
}

private func decide(_ client: CarillonClient) async throws {
    for await conflicts in client.conflicts {
        guard let first = conflicts.first else { continue }
        let server = first.conflict?["server"]?["status"]?.text ?? "gone"
        let keeps = await ask("It is \(server) there. Keep yours?")
        try await client.resolve(key: first.key, choice: keeps ? .keepLocal : .acceptServer)
    }
}

private func remind(_ client: CarillonClient, _ scheduler: any NotificationScheduling, folder: URL) async throws {
    let file = folder.appendingPathComponent("notifications.json")
    let known = (try? Data(contentsOf: file)) ?? Data("{}".utf8)
    let service = MedicationReminderService(
        scheduler, limit: 30, pending: try JSONDecoder().decode([String: NotificationRequest].self, from: known))
    try await service.requestAuthorizationIfNeeded()
    for await reminders in client.reminders() {
        try await service.update(
            reminders.rules.map { PlannedReminder($0, title: "Time for your medicine", body: $0.label ?? "") },
            exceptions: reminders.days.compactMap { PlannedException($0) })
        try JSONEncoder().encode(await service.scheduled).write(to: file)
    }
}

extension PlannedReminder {
    init(_ rule: CarillonReminder, title: String, body: String) {
        let repeats: Repeat =
            switch rule.repeats {
            case .daily: .daily
            case .weekdays: .weekdays
            case .on(let days): .on(days)
            }
        self.init(
            id: rule.id, title: title, body: body, time: rule.time, timeZone: rule.timeZone, repeats: repeats,
            isEnabled: rule.isEnabled, isLocal: rule.delivery != "push",
            upcoming: rule.upcoming.compactMap { next in
                next.id.map { Occurrence(id: $0, date: next.date, start: next.start) }
            })
    }
}

extension PlannedException {
    init?(_ day: CarillonReminderDay) {
        guard let id = day.id else { return nil }
        let start = [day.start, day.snoozedUntil].compactMap { $0 }.max()
        self.init(id: id, ruleID: day.ruleID, date: day.date, start: day.status == "cancelled" ? nil : start)
    }
}

private func options(hub: URL, folder: URL, key: Data, nextKey: Data, backend: Backend) throws {
    var options = CarillonOptions(hub: hub, key: "carillon-key", user: "demo", folder: folder) { "TOKEN" }
    options.keyStore = FileKeyStore(folder.appendingPathComponent("keys"))
    options.authorize = { channel, socketID in
        let answer = try await backend.authorize(channel, socketID)
        return CarillonChannelAuth(auth: answer.auth, channelData: answer.channelData)
    }
    options.transport = try NIOTransport(.init(pins: [key, nextKey]))
}
