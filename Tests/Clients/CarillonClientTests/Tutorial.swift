// The code of the tutorial, word for word but for @main: PageTests compares, and Tests/outside builds it as an app.

import CarillonClient
import Foundation

struct Pills {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, let hub = URL(string: "http://127.0.0.1:6001") else {
            print("Pills FOLDER TOKEN")
            return
        }
        let (folder, token) = (URL(fileURLWithPath: arguments[1]), arguments[2])
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)

        // In an app, the closure asks your backend for a fresh token.
        let options = CarillonOptions(hub: hub, key: "carillon-key", user: "demo", folder: folder) { token }
        let client = try CarillonClient(options)
        try await client.start()

        Task { await show(client) }
        Task { await ask(client) }
        while let line = await nextLine() {
            do { try await perform(line, client) } catch { print("! \(error)") }
        }
        await client.close()
    }
}

/// What the person types, read on a thread of its own: a task must not block.
func nextLine() async -> String? {
    await withCheckedContinuation { answer in
        Thread.detachNewThread { answer.resume(returning: readLine()) }
    }
}

func show(_ client: CarillonClient) async {
    for await today in client.today() {
        print("\n\(today.date): \(today.summary.takenCount) of \(today.summary.scheduledCount) taken")
        for (number, dose) in zip(1..., today.doses) {
            let mark = dose.isPending ? "(not sent)" : ""
            print("\(number). \(dose.time) \(dose.product.name ?? dose.id): \(dose.status.rawValue) \(mark)")
        }
    }
}

func perform(_ line: String, _ client: CarillonClient) async throws {
    let words = line.split(separator: " ")
    let doses = client.today().current?.doses ?? []
    let number = words.count > 1 ? Int(words[1]) ?? 0 : 0
    let dose = doses.indices.contains(number - 1) ? doses[number - 1] : nil
    switch (words.first ?? "", dose) {
    case ("take", let dose?): try await take(dose, client)
    case ("skip", let dose?): try await client.act(.skip(dose.id))
    case ("mine", _): try await decide(.keepLocal, client)
    case ("theirs", _): try await decide(.acceptServer, client)
    case ("offline", _): await client.suspend()
    case ("online", _): try await client.start()
    default: print("take NUMBER, skip NUMBER, mine, theirs, offline, online")
    }
}

func take(_ dose: CarillonDose, _ client: CarillonClient) async throws {
    let receipt = try await client.act(.markTaken(dose.id))
    if receipt.code == "late" {
        // Its window has ended: the person can still make it up.
        try await client.undo(key: receipt.key)
        try await client.act(.makeUp(dose.id))
    }
}

func ask(_ client: CarillonClient) async {
    for await conflicts in client.conflicts {
        for conflict in conflicts {
            let server = conflict.conflict?["server"]?["status"]?.text ?? "gone"
            print("! \(conflict.type) was not done: the dose is \(server). Type mine or theirs.")
        }
    }
}

func decide(_ choice: CarillonChoice, _ client: CarillonClient) async throws {
    guard let conflict = client.conflicts.current?.first else { return }
    try await client.resolve(key: conflict.key, choice: choice)
}
