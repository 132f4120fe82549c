import Foundation
import TestDatabase
import TestHub
import TestSupport
import Testing

@testable import CarillonClient

/// Devices of one user, on a real hub with a real PostgreSQL.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) struct HubTests {
    @Test func twoDevicesStayEqual() async throws {
        let stage = try await HubStage()
        let (phone, tablet) = (try stage.device("phone"), try stage.device("tablet"))
        try await phone.start()
        try await tablet.start()
        try await tablet.sees("d1", .scheduled)
        try await phone.sees("d1", .scheduled)
        let receipt = try await phone.act(.markTaken("d1", note: "with water"))
        #expect(receipt.status == "applied")
        #expect(phone.today().current?.doses.first { $0.id == "d1" }?.status == .taken)
        try await tablet.sees("d1", .taken)
        try await phone.drained()
        try await phone.sees("d1", .taken)
        #expect(try stage.count(receipt.key) == 1)
        // The note's text is in no event: the tablet has fetched it.
        try await tablet.waits(for: "the note", tablet.today()) { $0.doses.contains { $0.note == "with water" } }
        #expect(phone.connection.current == .connected && phone.problem.current == nil)
        try await phone.waits(for: "a sync", phone.lastSyncAt) { _ in true }
        let undone = try await phone.undo(key: receipt.key)
        #expect(undone != nil)
        try await tablet.sees("d1", .scheduled)
        await stage.end()
    }

    /// A plane flight: both act on the same doses, one without a network.
    @Test func devicesConvergeAfterAFlight() async throws {
        let stage = try await HubStage()
        let (phone, tablet) = (try stage.device("phone"), try stage.device("tablet"))
        try await phone.start()
        try await tablet.start()
        try await phone.sees("d3", .scheduled)
        try await tablet.sees("d3", .scheduled)
        await phone.suspend()
        let skip = try await phone.act(.skip("d1", reason: "ill"))
        let behind = try await phone.act(.addNote("d1", "in the plane"))
        let other = try await phone.act(.markTaken("d2"))
        #expect(phone.queueLength.current == 3)
        #expect(phone.today().current?.doses.map(\.status) == [.skipped, .taken, .scheduled])
        try await tablet.act(.markTaken("d1"))
        try await tablet.drained()
        try await tablet.sees("d1", .taken)
        try await phone.start()
        // The conflict holds back its dose, and no other.
        let conflicts = try await phone.waits(for: "a conflict", phone.conflicts) { !$0.isEmpty }
        #expect(conflicts.map(\.key) == [skip.key] && conflicts.first?.code == "state")
        #expect(conflicts.first?.conflict?["server"]?["status"] == "taken")
        try await tablet.sees("d2", .taken)
        #expect(try stage.count(other.key) == 1 && stage.count(behind.key) == 0)
        #expect(phone.today().current?.doses.first?.hasConflict == true)
        try await phone.resolve(key: skip.key, choice: .keepLocal)
        try await tablet.sees("d1", .skipped)
        try await tablet.waits(for: "the note", tablet.today()) { $0.doses.contains { $0.note == "in the plane" } }
        try await phone.drained()
        #expect(phone.conflicts.current == [] && phone.queueLength.current == 0)
        #expect(try stage.count(skip.key) == 1 && stage.count(behind.key) == 1)
        try await phone.sees("d1", .skipped)
        await stage.end()
    }

    @Test func theServersSideCanBeTaken() async throws {
        let stage = try await HubStage(doses: 1)
        let phone = try stage.device("phone")
        try await phone.start()
        try await phone.sees("d1", .scheduled)
        await phone.suspend()
        let key = try await phone.act(.skip("d1")).key
        try stage.owner.execute("UPDATE care.dose_occurrence SET status = 'taken', taken_at = now() WHERE id = 'd1'")
        try await phone.start()
        try await phone.waits(for: "a conflict", phone.conflicts) { !$0.isEmpty }
        try await phone.resolve(key: key, choice: .acceptServer)
        try await phone.drained()
        try await phone.waits(for: "no conflict", phone.conflicts) { $0.isEmpty }
        try await phone.sees("d1", .taken)
        await stage.end()
    }

    /// All doses are marked, and another device has changed one of them: the others are done, and that one is asked about.
    @Test func oneOfSeveralMayConflict() async throws {
        let stage = try await HubStage()
        let phone = try stage.device("phone")
        try await phone.start()
        try await phone.sees("d3", .scheduled)
        await phone.suspend()
        let bulk = try await phone.act(CarillonAction("bulkMarkAll", ["occurrenceIds": ["d1", "d2"]])).key
        let behind = try await phone.act(.addNote("d1", "behind")).key
        let other = try await phone.act(.addNote("d2", "free")).key
        try stage.owner.execute("UPDATE care.dose_occurrence SET status = 'skipped' WHERE id = 'd1'")
        try await phone.start()
        let conflicts = try await phone.waits(for: "a conflict", phone.conflicts) { !$0.isEmpty }
        #expect(conflicts.map(\.key) == [bulk] && conflicts.first?.code == "state" && phone.failures.current == [])
        guard case .array(let items) = conflicts.first?.items else {
            Issue.record("no items")
            return
        }
        #expect(items.map { $0["occurrenceId"]?.text } == ["d1"])
        #expect(items.first?["conflict"]?["server"]?["status"] == "skipped")
        try await phone.drained()
        try await phone.sees("d2", .taken)
        #expect(try stage.count(other) == 1 && stage.count(behind) == 0)
        #expect(phone.today().current?.doses.map(\.hasConflict) == [true, false, false])
        try await phone.resolve(key: bulk, choice: .keepLocal)
        try await phone.drained()
        try await phone.sees("d1", .taken)
        #expect(phone.conflicts.current == [] && phone.failures.current == [])
        #expect(try stage.status("d1") == "taken" && stage.count(behind) == 1)
        // All of it can be undone, each part by its key.
        try await phone.undo(key: bulk)
        try await phone.drained()
        try await phone.waits(for: "no open action", phone.queueLength) { $0 == 0 }
        await stage.end()
    }

    @Test func whatTheHubRefusesIsShown() async throws {
        let stage = try await HubStage(doses: 1)
        let phone = try stage.device("phone")
        try await phone.start()
        try await phone.sees("d1", .scheduled)
        let receipt = try await phone.act(.markMissed("d1"))
        #expect(receipt.status == "rejected" && receipt.code == "not_due")
        let failures = try await phone.waits(for: "a failure", phone.failures) { !$0.isEmpty }
        #expect(failures.map(\.code) == ["not_due"])
        try await phone.dismiss(key: receipt.key)
        #expect(phone.failures.current == [])
        await stage.end()
    }

    @Test func medicationsAndRemindersAreMadeOffline() async throws {
        let stage = try await HubStage()
        let (phone, tablet) = (try stage.device("phone"), try stage.device("tablet"))
        try await tablet.start()
        let made = try await phone.act(
            CarillonAction("createMedication", ["name": "Ramipril", "frequency": "daily", "times": ["21:30"]]))
        let medication = try #require(made.id)
        try await phone.act(CarillonAction("createReminder", ["productId": .string(medication), "time": "21:30"]))
        try await phone.start()
        try await phone.drained()
        try await tablet.waits(for: "the medication", tablet.medications()) { medications in
            medications.items.contains { $0.id == medication && !$0.isPending }
        }
        let reminders = try await tablet.waits(for: "the rule", tablet.reminders()) { reminders in
            reminders.rules.contains { $0.productID == medication }
        }
        #expect(reminders.rules.first?.upcoming.count == 10)
        let rule = try #require(reminders.rules.first)
        try await tablet.act(CarillonAction("updateReminder", ["id": .string(rule.id), "time": "22:00"]))
        try await phone.waits(for: "the new time", phone.reminders()) { reminders in
            reminders.rules.contains { $0.time == "22:00" && !$0.isPending }
        }
        await stage.end()
    }

    /// An app and its widget have one store: the widget appends, the app sends.
    @Test func twoProcessesDrainOneQueueOnce() async throws {
        let stage = try await HubStage()
        let (app, widget) = (try stage.device("phone"), try stage.device("phone"))
        try await app.start()
        try await widget.start()
        try await app.sees("d1", .scheduled)
        let receipt = try await widget.act(.markTaken("d1"))
        try await app.sees("d1", .taken)
        #expect(try stage.count(receipt.key) == 1)
        try await widget.drained()
        // The app goes, and the widget drains.
        await app.close()
        let next = try await widget.act(.markTaken("d2"))
        try await widget.sees("d2", .taken)
        #expect(try stage.count(next.key) == 1)
        #expect(await app.deviceID == widget.deviceID)
        await stage.end()
    }

    /// The app gives the token of who has signed in meanwhile: nothing of one person's queue comes into another's account,
    /// at the start, after a reconnect, and by a request.
    @Test func aQueueIsItsUsersAlone() async throws {
        let stage = try await HubStage()
        let user = Guarded("bob")
        let phone = try stage.device("phone") { $0.token = { try await GatewayFixture.token(user.with { $0 }) } }
        let receipt = try await phone.act(.markTaken("d1"))
        try await phone.start()
        try await phone.waits(for: "the problem", phone.problem) { $0 == .wrongUser("bob") }
        #expect(phone.queueLength.current == 1 && phone.today().current == nil)
        user.with { $0 = "ana" }
        try await phone.sees("d1", .taken)
        #expect(try stage.count(receipt.key) == 1)
        user.with { $0 = "bob" }
        await phone.suspend()
        try await phone.act(.markTaken("d2"))
        try await phone.start()
        try await phone.waits(for: "the problem", phone.problem) { $0 == .wrongUser("bob") }
        #expect(phone.queueLength.current == 1)
        user.with { $0 = "ana" }
        try await phone.sees("d2", .taken)
        let users = try stage.owner.query("SELECT DISTINCT user_id FROM sync.action", [])
        #expect(users == [["ana"]])
        await stage.end()
    }

    @Test func signingOutAsks() async throws {
        let stage = try await HubStage(doses: 1)
        let phone = try stage.device("phone")
        try await phone.act(.markTaken("d1"))
        await #expect(throws: CarillonError.unsentActions(1)) { try await phone.signOut() }
        try await phone.signOut(unsent: .keep)
        let again = try stage.device("phone")
        #expect(again.queueLength.current == 1)
        try await again.start()
        try await again.drained()
        try await again.signOut()
        #expect(try stage.device("phone").today().current == nil)
        await stage.end()
    }

    /// A month offline, or a tenth of one: `MONTH_OFFLINE=3000` is the whole, which a release build drains in ten seconds.
    @Test func thousandsOfActionsDrain() async throws {
        let total = Int(Environment.number("MONTH_OFFLINE") ?? 300)
        let stage = try await HubStage(doses: 60)
        let phone = try stage.device("phone")
        try await phone.start()
        try await phone.sees("d60", .scheduled)
        await phone.suspend()
        let begun = ContinuousClock.now
        for number in 0..<total { try await phone.act(.addNote("d\(number % 60 + 1)", "note \(number)")) }
        let acted = ContinuousClock.now
        #expect(phone.queueLength.current == total)
        try await phone.start()
        try await phone.drained(seconds: 60 + total / 10)
        let drained = ContinuousClock.now
        let rows = try stage.owner.query("SELECT count(*)::text FROM sync.action", [])
        #expect(rows.first?.first == .some(String(total)))
        let bytes = try ["", "-wal"].map { suffix in
            let file = phone.options.file.path + suffix
            return try FileManager.default.attributesOfItem(atPath: file)[.size] as? Int ?? 0
        }.reduce(0, +)
        #expect(bytes < 10_000_000)
        print("\(total) actions: made in \(acted - begun), drained in \(drained - acted), store of \(bytes) bytes")
        await stage.end()
    }
}
