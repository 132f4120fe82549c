/// A home's channels, by app: what is asked about one app's costs nothing for those of others.
struct ChannelTable {
    private var perApp: ContiguousArray<[ChannelKey: HomeChannel]> = []
    private(set) var count = 0

    subscript(key: ChannelKey) -> HomeChannel? {
        get { key.app < perApp.count ? perApp[key.app][key] : nil }
        set {
            while perApp.count <= key.app { perApp.append([:]) }
            let before = perApp[key.app].count
            perApp[key.app][key] = newValue
            count += perApp[key.app].count - before
        }
    }

    /// The channels of one app.
    subscript(app: App) -> [ChannelKey: HomeChannel] { app.index < perApp.count ? perApp[app.index] : [:] }
}
