import CarillonClient
import Foundation

/// A phone on the command line: the doses of today, with and without a network.
@main
struct Phone {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard (4...5).contains(arguments.count), let hub = URL(string: arguments[1]) else {
            print("phone HUB USER TOKEN [FOLDER]: for example phone http://127.0.0.1:6001 demo \"$TOKEN\" /tmp/phone-1")
            exit(64)
        }
        let folder = URL(
            fileURLWithPath: arguments.count > 4 ? arguments[4] : NSTemporaryDirectory() + "carillon-phone")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // In an app: a fresh token, from your backend.
        let token = arguments[3]
        let client = try CarillonClient(
            CarillonOptions(hub: hub, key: "carillon-key", user: arguments[2], folder: folder) { token })
        try await client.start()
        Task { for await today in client.today() { show(today, client) } }
        Task { for await state in client.connection { print("· \(state.rawValue)") } }
        Task { for await problem in client.problem { if let problem { print("· \(problem)") } } }
        Task {
            for await conflicts in client.conflicts {
                for conflict in conflicts {
                    let server = conflict.conflict?["server"]?["status"]?.text ?? "gone"
                    print("! \(conflict.type): it is \(server) there. Type mine or theirs.")
                }
            }
        }
        Task {
            for await failures in client.failures {
                for failure in failures {
                    print("! \(failure.type) is refused: \(failure.code ?? "")")
                    try await client.dismiss(key: failure.key)
                }
            }
        }
        var keys: [String] = []
        while let line = await nextLine() {
            do {
                guard try await perform(line, client, &keys) else { break }
            } catch {
                print("! \(error)")
            }
        }
        await client.close()
    }

    /// Returns whether to go on.
    private static func perform(_ line: String, _ client: CarillonClient, _ keys: inout [String]) async throws -> Bool {
        let words = line.split(separator: " ", maxSplits: 2).map(String.init)
        func dose() throws -> String {
            let doses = client.today().current?.doses ?? []
            guard words.count > 1, let number = Int(words[1]), doses.indices.contains(number - 1) else {
                throw CarillonError.invalid("which dose? Type its number")
            }
            return doses[number - 1].id
        }
        let text = words.count > 2 ? words[2] : nil
        switch words.first ?? "" {
        case "take": keys.append(try await client.act(.markTaken(try dose(), note: text)).key)
        case "skip": keys.append(try await client.act(.skip(try dose(), reason: text)).key)
        case "makeup": keys.append(try await client.act(.makeUp(try dose(), reason: text)).key)
        case "note": keys.append(try await client.act(.addNote(try dose(), text ?? "")).key)
        case "undo": if let key = keys.popLast() { try await client.undo(key: key) }
        case "mine", "theirs":
            guard let first = client.conflicts.current?.first else { break }
            try await client.resolve(key: first.key, choice: words[0] == "mine" ? .keepLocal : .acceptServer)
        case "offline": await client.suspend()
        case "online": try await client.start()
        case "show": if let today = client.today().current { show(today, client) }
        case "quit": return false
        case "": break
        default:
            print(
                "take N [NOTE], skip N [REASON], makeup N, note N TEXT, undo, mine, theirs, offline, online, show, quit"
            )
        }
        return true
    }

    private static func show(_ today: CarillonToday, _ client: CarillonClient) {
        print("\n\(today.date): \(today.summary.takenCount) of \(today.summary.scheduledCount) taken")
        for (index, dose) in today.doses.enumerated() {
            let marks = (dose.isPending ? " …" : "") + (dose.hasConflict ? " !" : "")
            print(
                "\(index + 1). \(dose.time) \(dose.productName ?? dose.id): \(dose.status.rawValue)\(marks) \(dose.note ?? "")"
            )
        }
        if let waiting = client.queueLength.current, waiting > 0 { print("\(waiting) to send") }
    }

    /// A line of the person, read on a thread of its own.
    private static func nextLine() async -> String? {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: readLine()) }
        }
    }
}
