import Care
import JSON

/// Sends the queue: what may be sent is numbered in a fenced transaction, and every answer is worked off once.
struct QueueMachine: Sendable {
    /// Unanswered actions on this line, by key.
    private(set) var flying: Set<String> = []
    private var isPaused = false
    private var backoff = JitteredWait()

    private static let patienceMs = 30_000

    /// The line is gone: what had no answer is sent again on the next one, with its key and its number.
    mutating func reset(_ out: inout [ClientEffect]) {
        flying = []
        isPaused = false
        out += [.cancel(.retry), .cancel(.patience)]
    }

    /// Sends what may be sent.
    mutating func pump(
        device: String?, _ storage: any MirrorStorage, random: Double, _ line: ConnectionMachine,
        _ out: inout [ClientEffect]
    ) -> CarillonError? {
        // A transaction for many: as long as half of them have no answer, the hub is busy.
        guard !isPaused, let device, flying.count <= ActionQueue.window / 2 else { return nil }
        guard storage.mirror.queue.next().contains(where: { !flying.contains($0.key) }) else { return nil }
        do {
            let rows = try storage.write(isFenced: true) { $0.number() }
            for row in rows where !flying.contains(row.key) {
                guard line.send("sync:action", row.envelope(device: device), &out) else { break }
                flying.insert(row.key)
            }
            watch(&out)
            return nil
        } catch {
            pause(1000 + backoff.next(random), &out)
            return CarillonError(error)
        }
    }

    /// If no answer comes, the line is of no use.
    private func watch(_ out: inout [ClientEffect]) {
        out.append(flying.isEmpty ? .cancel(.patience) : .timer(.patience, milliseconds: Self.patienceMs))
    }

    private mutating func pause(_ milliseconds: Int, _ out: inout [ClientEffect]) {
        isPaused = true
        out.append(.timer(.retry, milliseconds: milliseconds))
    }

    /// The pause has ended.
    mutating func go() { isPaused = false }

    /// Works off answers in their order, all in one transaction. If that fails, nothing is written: these are asked again,
    /// with their keys.
    mutating func settle(
        _ answers: [JSONTree], _ storage: any MirrorStorage, at now: Timestamp, random: Double,
        _ out: inout [ClientEffect]
    ) -> CarillonError? {
        let own = answers.filter { $0["key"]?.string.map(flying.contains) ?? false }
        guard !own.isEmpty else { return nil }
        let final = own.filter { $0["status"]?.string != "retry" }
        do {
            try storage.write(isFenced: true) { mirror in
                mirror.settle(final, at: now)
                for answer in own where answer["status"]?.string == "retry" {
                    let key = answer["key"]?.string ?? ""
                    // Of several in the air, only the first one's answer says where to go on.
                    if answer["code"]?.string == "out_of_order", let expected = answer["expected"]?.integer {
                        mirror.renumber(key, expected: expected)
                    } else {
                        mirror.countRetry(key)
                    }
                }
            }
        } catch {
            for answer in own { answer["key"]?.string.map { _ = flying.remove($0) } }
            pause(1000 + backoff.next(random), &out)
            return CarillonError(error)
        }
        for answer in own { answer["key"]?.string.map { _ = flying.remove($0) } }
        if !final.isEmpty { backoff.reset() }
        out.append(.changed)
        for answer in own where answer["status"]?.string == "retry" { wait(answer, random: random, &out) }
        watch(&out)
        return nil
    }

    private mutating func wait(_ answer: JSONTree, random: Double, _ out: inout [ClientEffect]) {
        if answer["code"]?.string == "out_of_order" {
            // Nothing is sent before what is in the air has been answered: its numbers are old.
            if !flying.isEmpty, !isPaused { pause(200, &out) }
            return
        }
        let wait = min(60_000, max(Int(answer["afterMs"]?.integer ?? 0), 50))
        pause(wait + Int(random * Double(wait)), &out)
    }
}
