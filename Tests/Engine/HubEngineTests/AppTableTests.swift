import HubEngine
import Pusher
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct AppTableTests {
    private func app(_ id: String, _ index: Int, key: String? = nil, ownsDatabase: Bool = false) -> App {
        App(
            id: id, credentials: AppCredentials(key: key ?? "key" + id, secret: "s"), index: index,
            ownsDatabase: ownsDatabase)
    }

    @Test(arguments: [1, 3, 4, 5, 40]) func appsAreFoundByEverything(_ count: Int) throws {
        let table = try AppTable((0..<count).map { app("\($0)", $0) })
        for index in 0..<count {
            #expect(table.app(id: "\(index)")?.index == index)
            #expect(table.app(key: "key\(index)")?.index == index)
            #expect(withBytes("key\(index)") { table.app(key: $0) }?.index == index)
            #expect(table.app(index: index)?.id == "\(index)")
        }
        #expect(table.app(id: "") == nil)
        #expect(table.app(index: count) == nil)
        #expect(table.app(index: -1) == nil)
        #expect(withBytes("key") { table.app(key: $0) } == nil)
        #expect(withBytes("") { table.app(key: $0) } == nil)
    }

    @Test func anIndexNeverStandsForTwoApps() throws {
        let first = try AppTable([app("1", 0), app("2", 1)])
        #expect(first.indices(of: ["9", "2", "8", "9", "1"]) == [2, 1, 3, 2, 0])
        let second = try first.replaced(by: [app("1", 0), app("3", 2)])
        #expect(second.version > first.version)
        #expect(second.app(index: 1) == nil)
        // A removed app keeps its index, and gets it again.
        #expect(second.indices(of: ["2", "4"]) == [1, 3])
        #expect(throws: AppTableError.wrongIndex("4")) { try second.replaced(by: [app("4", 1)]) }
        #expect(throws: AppTableError.wrongIndex("1")) { try second.replaced(by: [app("1", 4)]) }
        #expect(throws: AppTableError.wrongIndex("4")) { try second.replaced(by: [app("4", -1)]) }
        #expect(throws: AppTableError.wrongIndex("5")) { try second.replaced(by: [app("4", 3), app("5", 3)]) }
        #expect(try second.replaced(by: [app("2", 1)]).app(index: 1)?.id == "2")
        #expect(try second.replaced(by: []).apps.isEmpty)
    }

    @Test func idsAndKeysAreTheirApps() throws {
        #expect(throws: AppTableError.repeatedID("1")) { try AppTable([app("1", 0), app("1", 1)]) }
        let twins = [app("1", 0, key: "k"), app("2", 1, key: "k")]
        #expect(throws: AppTableError.repeatedKey("k")) { try AppTable(twins) }
        #expect("\(AppTableError.repeatedKey("k"))" == "two apps have the key k; give each one of its own")
    }

    @Test func theDatabaseStaysItsApps() throws {
        let table = try AppTable([app("1", 0, ownsDatabase: true), app("2", 1)])
        let others = [[], [app("2", 1)], [app("1", 0), app("2", 1)], [app("1", 0), app("2", 1, ownsDatabase: true)]]
        for apps in others {
            #expect(throws: AppTableError.databaseChanged) { try table.replaced(by: apps) }
        }
        #expect(try table.replaced(by: [app("1", 0, key: "new", ownsDatabase: true)]).app(key: "new") != nil)
    }
}
