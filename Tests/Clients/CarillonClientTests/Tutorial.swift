import CarillonClient
import Foundation

// The code of the tutorial, word for word: PageTests compares.

private func open(hub: URL, folder: URL, token: String) async throws -> CarillonClient {
    let options = CarillonOptions(hub: hub, key: "carillon-key", user: "demo", folder: folder) { token }
    let client = try CarillonClient(options)
    try await client.start()
    return client
}

func watch(_ client: CarillonClient) async {
    for await today in client.today() {
        print("\(today.summary.takenCount) of \(today.summary.scheduledCount) taken")
        for dose in today.doses {
            print(dose.time, dose.productName ?? dose.id, dose.status.rawValue, dose.isPending ? "(not sent)" : "")
        }
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

func decide(_ client: CarillonClient, keeps: @Sendable (CarillonQueued) async -> Bool) async throws {
    for await conflicts in client.conflicts {
        for conflict in conflicts {
            let choice: CarillonChoice = await keeps(conflict) ? .keepLocal : .acceptServer
            try await client.resolve(key: conflict.key, choice: choice)
        }
    }
}
