/// The apps of one shard, by index. A shard may hear of an app, or of its new value, before or after the loops do.
package final class KnownApps {
    private var apps: ContiguousArray<App?> = []
    private var indices: [String: Int] = [:]

    /// None.
    package init() {}

    /// The app's value has changed: the new one counts at once.
    package func replace(_ app: App) {
        while apps.count <= app.index { apps.append(nil) }
        apps[app.index] = app
        indices[app.id] = app.index
    }

    /// The app's current value: `app` itself where none is known, since a loop may hear of a change later than this shard.
    func known(_ app: App) -> App {
        if let known = self[app.index] { return known }
        replace(app)
        return app
    }

    /// The app with that index; nil if it is not known.
    package subscript(index: Int) -> App? { index < apps.count ? apps[index] : nil }

    /// The index of the app of that id, by which other processes name it.
    func index(of id: String) -> Int? { indices[id] }
}
