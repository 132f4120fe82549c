import CKillPoint
import CarillonClient
import Foundation

/// A device of the Swift library for judges: a request a line on standard input, and an answer a line on standard output.
///
///     ClientDevice HUB KEY USER TOKEN FOLDER
///
/// `DIE_AT_WRITE=n` kills it before its n-th write.
@main
struct ClientDevice {
    private let client: CarillonClient

    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 6, let hub = URL(string: arguments[1]) else {
            print("ClientDevice HUB KEY USER TOKEN FOLDER")
            exit(64)
        }
        let (token, folder) = (arguments[4], URL(fileURLWithPath: arguments[5]))
        var options = CarillonOptions(hub: hub, key: arguments[2], user: arguments[3], folder: folder) { token }
        options.backoffMs = 20...500
        ck_arm()
        let begun = ContinuousClock.now
        let device = ClientDevice(client: try CarillonClient(options))
        let shown = device.client.today().current != nil
        Self.tell(["opened": .double(milliseconds(ContinuousClock.now - begun)), "isShown": .bool(shown)])
        try await device.client.start()
        while let line = await nextLine() {
            guard case .object(let request) = Self.payload(line), let what = request["do"]?.text else { continue }
            if what == "quit" { break }
            do {
                Self.tell(try await device.perform(what, request))
            } catch {
                Self.tell(["error": .string("\(error)")])
            }
        }
        await device.client.close()
    }

    private func perform(
        _ what: String, _ request: [String: CarillonPayload]
    ) async throws -> [String: CarillonPayload] {
        let key = request["key"]?.text ?? ""
        switch what {
        case "act":
            guard case .object(let payload) = request["payload"] else { return ["error": "no payload"] }
            let receipt = try await client.act(CarillonAction(request["type"]?.text ?? "", payload))
            return ["key": .string(receipt.key), "status": Self.text(receipt.status), "code": Self.text(receipt.code)]
        case "undo": return ["key": Self.text(try await client.undo(key: key))]
        case "resolve": return ["key": Self.text(try await client.resolve(key: key, choice: Self.choice(request)))]
        case "dismiss": try await client.dismiss(key: key)
        case "suspend": await client.suspend()
        case "start": try await client.start()
        case "standing": return await standing()
        case "shown": return await shown()
        case "arm": if case .int(let writes) = request["writes"] { ck_die_at(writes) }
        case "measure": return try await measure(request)
        default: return ["error": "no such request"]
        }
        return [:]
    }

    private static func choice(_ request: [String: CarillonPayload]) -> CarillonChoice {
        switch request["choice"]?.text {
        case "keep_local": .keepLocal
        case "merge": request["merged"].map { .merge($0) } ?? .mergeAll
        default: .acceptServer
        }
    }

    // MARK: What it tells

    private func standing() async -> [String: CarillonPayload] {
        let doses = client.today().current?.doses ?? []
        return [
            "connection": .string(client.connection.current?.rawValue ?? ""),
            "waiting": .int(client.queueLength.current ?? -1),
            "pending": .int(doses.filter(\.isPending).count),
            "problem": .string(client.problem.current.map { "\($0)" } ?? ""),
            "conflicts": .array((client.conflicts.current ?? []).map(Self.queued)),
            "failures": .array((client.failures.current ?? []).map(Self.queued)),
        ]
    }

    private static func queued(_ row: CarillonQueued) -> CarillonPayload {
        [
            "key": .string(row.key), "type": .string(row.type), "code": text(row.code),
            "isWhole": .bool(row.items == nil), "server": row.conflict?["server"] ?? .null,
        ]
    }

    private func shown() async -> [String: CarillonPayload] {
        let today = client.today().current
        let reminders = client.reminders().current
        return [
            "device": .string(await client.deviceID),
            "date": Self.text(today?.date),
            "doses": .array((today?.doses ?? []).map(Self.dose)),
            "summary": today.map { Self.summary($0.summary) } ?? .null,
            "rules": .array(
                (reminders?.rules ?? []).map { rule in
                    [
                        "id": .string(rule.id), "rev": .int(Int(rule.rev)), "time": .string(rule.time),
                        "label": Self.text(rule.label), "enabled": .bool(rule.isEnabled),
                        "isPending": .bool(rule.isPending),
                    ]
                }),
        ]
    }

    private static func dose(_ dose: CarillonDose) -> CarillonPayload {
        [
            "id": .string(dose.id), "status": .string(dose.status.rawValue), "rev": .int(Int(dose.rev)),
            "note": text(dose.note), "reason": text(dose.reason), "isPending": .bool(dose.isPending),
            "takenAt": dose.takenAt.map { .double($0.timeIntervalSince1970) } ?? .null,
        ]
    }

    private static func summary(_ day: CarillonDay) -> CarillonPayload {
        [
            "scheduledCount": .int(day.scheduledCount), "takenCount": .int(day.takenCount),
            "missedCount": .int(day.missedCount), "madeUpCount": .int(day.madeUpCount),
            "skippedCount": .int(day.skippedCount), "pendingCount": .int(day.pendingCount),
            "adherencePct": day.adherence.map { .double($0) } ?? .null,
            "onTimePct": day.onTime.map { .double($0) } ?? .null,
        ]
    }

    private static func text(_ text: String?) -> CarillonPayload { text.map { .string($0) } ?? .null }

    // MARK: Figures

    /// A month of actions without a network, and back: milliseconds of each part.
    private func measure(_ request: [String: CarillonPayload]) async throws -> [String: CarillonPayload] {
        guard case .int(let count) = request["count"] else { return ["error": "no count"] }
        let doses = client.today().current?.doses.map(\.id) ?? []
        guard !doses.isEmpty else { return ["error": "no doses"] }
        await client.suspend()
        let clock = ContinuousClock()
        var acts: [Double] = []
        for number in 0..<count {
            let begun = clock.now
            try await client.act(.addNote(doses[number % doses.count], "note \(number)"))
            acts.append(Self.milliseconds(clock.now - begun))
        }
        let last = acts.suffix(100).sorted()
        var seen = 0
        let reading = clock.now
        for _ in 0..<1000 { seen += client.today().current?.doses.filter(\.isPending).count ?? 0 }
        let read = Self.milliseconds(clock.now - reading) / 1000
        let size = try FileManager.default.subpathsOfDirectory(atPath: client.options.folder.path).reduce(0) {
            sum, name in
            let path = client.options.folder.appendingPathComponent(name).path
            return sum + (try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0)
        }
        let begun = clock.now
        if request["drains"] == true {
            try await client.start()
            _ = await client.queueLength.first { $0 == 0 }
        }
        return [
            "acts": .double(acts.reduce(0, +)), "act100": .double(last.isEmpty ? 0 : last[last.count / 2]),
            "read": .double(read), "seen": .int(seen), "bytes": .int(size),
            "drain": .double(Self.milliseconds(clock.now - begun)),
        ]
    }

    private static func milliseconds(_ duration: Duration) -> Double {
        Double(duration.components.seconds) * 1000 + Double(duration.components.attoseconds) / 1e15
    }

    // MARK: Lines

    private static func tell(_ answer: [String: CarillonPayload]) {
        guard let data = try? JSONSerialization.data(withJSONObject: value(.object(answer))) else { return }
        FileHandle.standardOutput.write(data + Data([0x0A]))
    }

    private static func nextLine() async -> String? {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: readLine()) }
        }
    }

    private static func payload(_ line: String) -> CarillonPayload {
        (try? JSONDecoder().decode(Decoded.self, from: Data(line.utf8)))?.payload ?? .null
    }

    private static func value(_ payload: CarillonPayload) -> Any {
        switch payload {
        case .null: NSNull()
        case .bool(let value): value
        case .int(let value): value
        case .double(let value): value
        case .string(let value): value
        case .array(let values): values.map(value)
        case .object(let members): members.mapValues(value)
        }
    }
}

/// Any JSON value.
private struct Decoded: Decodable {
    let payload: CarillonPayload

    init(from decoder: any Decoder) throws {
        if let members = try? decoder.singleValueContainer().decode([String: Decoded].self) {
            payload = .object(members.mapValues(\.payload))
        } else if let elements = try? decoder.singleValueContainer().decode([Decoded].self) {
            payload = .array(elements.map(\.payload))
        } else if let value = try? decoder.singleValueContainer().decode(Bool.self) {
            payload = .bool(value)
        } else if let value = try? decoder.singleValueContainer().decode(Int.self) {
            payload = .int(value)
        } else if let value = try? decoder.singleValueContainer().decode(Double.self) {
            payload = .double(value)
        } else if let value = try? decoder.singleValueContainer().decode(String.self) {
            payload = .string(value)
        } else {
            payload = .null
        }
    }
}
