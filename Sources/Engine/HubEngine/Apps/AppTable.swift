import Bytes
import Pusher

/// Why a list of apps cannot replace the one being served: a sentence for the operator.
package enum AppTableError: Error, Equatable, Sendable, CustomStringConvertible {
    case repeatedID(String)
    case repeatedKey(String)
    /// The app has the index of another app, or had another index before.
    case wrongIndex(String)
    /// The database's streams cannot pass from one app to another while devices are in them.
    case databaseChanged

    /// What is wrong, and what to do.
    package var description: String {
        switch self {
        case .repeatedID(let id): "two apps have the id \(id); give each one of its own"
        case .repeatedKey(let key): "two apps have the key \(key); give each one of its own"
        case .wrongIndex(let id): "the app \(id) is numbered as another one is or was; this is the hub's own fault"
        case .databaseChanged:
            "which app owns the database cannot change while the hub runs, nor can that app go; restart the hub for that"
        }
    }
}

/// The apps that are served. Immutable: `replaced(by:)` makes the next table, in which no index ever stands for another app.
package final class AppTable: Sendable {
    /// All apps, in the order of the settings.
    package let apps: [App]
    /// Numbers the tables of a hub. The one with the higher version is the later one.
    package let version: Int
    /// The indices of all apps that this hub ever served.
    private let indices: [String: Int]
    /// The counts of each of those apps, by index.
    private let counts: [Int: AppCounts]
    private let byID: [String: App]
    private let byKey: [String: App]
    private let byIndex: [App?]

    /// Up to this many apps a linear search by key is quicker.
    private static let searchedMax = 4

    /// The apps that a hub begins with, each with a small index of its own.
    package convenience init(_ apps: [App]) throws(AppTableError) {
        try self.init(apps, version: 0, indices: [:], counts: [:])
    }

    private init(
        _ given: [App], version: Int, indices known: [String: Int], counts counted: [Int: AppCounts]
    ) throws(AppTableError) {
        let apps = given.map { app in counted[app.index].map { app.counted(in: $0) } ?? app }
        counts = counted.merging(apps.map { ($0.index, $0.counts) }) { old, _ in old }
        var indices = known
        var taken = Set(known.values)
        var byID: [String: App] = [:]
        var byKey: [String: App] = [:]
        var byIndex: [App?] = []
        for app in apps {
            guard byID.updateValue(app, forKey: app.id) == nil else { throw .repeatedID(app.id) }
            guard byKey.updateValue(app, forKey: app.credentials.key) == nil else {
                throw .repeatedKey(app.credentials.key)
            }
            if let index = known[app.id] {
                guard app.index == index else { throw .wrongIndex(app.id) }
            } else {
                guard app.index >= 0, taken.insert(app.index).inserted else { throw .wrongIndex(app.id) }
                indices[app.id] = app.index
            }
            while byIndex.count <= app.index { byIndex.append(nil) }
            byIndex[app.index] = app
        }
        self.apps = apps
        self.version = version
        self.indices = indices
        self.byID = byID
        self.byKey = byKey
        self.byIndex = byIndex
    }

    /// The table that replaces this one.
    package func replaced(by apps: [App]) throws(AppTableError) -> AppTable {
        let table = try AppTable(apps, version: version + 1, indices: indices, counts: counts)
        let owner = self.apps.first { $0.ownsDatabase }?.id
        guard table.apps.first(where: { $0.ownsDatabase })?.id == owner else { throw .databaseChanged }
        return table
    }

    /// The index of each of these apps: its own if it was ever served, otherwise one that was never used.
    package func indices(of ids: [String]) -> [Int] {
        var indices = indices
        var next = (indices.values.max() ?? -1) + 1
        return ids.map { id in
            if let index = indices[id] { return index }
            indices[id] = next
            defer { next += 1 }
            return next
        }
    }

    /// The app with this index, if it is served.
    package func app(index: Int) -> App? { byIndex.indices.contains(index) ? byIndex[index] : nil }

    /// The app with this id, if it is served.
    package func app(id: String) -> App? { byID[id] }

    /// The app with this key, if it is served.
    package func app(key: String) -> App? { byKey[key] }

    /// The app whose key has this UTF-8, if it is served.
    package func app(key: UnsafeRawBufferPointer) -> App? {
        guard apps.count > Self.searchedMax else { return apps.first { $0.credentials.isKey(key) } }
        guard let app = byKey[key.string], app.credentials.isKey(key) else { return nil }
        return app
    }
}
