import Reactor

extension Settings {
    /// Looks whether a hub could listen where it shall now, before long work is done for nothing.
    ///
    /// - Throws: a failure that says what is in the way.
    func checkFree() throws(Failure) {
        for place in listenPlaces { try place.checkFree(for: SettingsTable[\.listen]) }
        if let pages = operations {
            try ListenPlace.tcp(host: pages.host, port: pages.port).checkFree(for: SettingsTable[\.operations])
        }
    }
}

extension ListenPlace {
    /// Looks whether a hub could listen here now.
    ///
    /// - Parameter setting: where the place is from.
    /// - Throws: a failure that says what is in the way.
    func checkFree(for setting: Setting) throws(Failure) {
        do throws(ListenError) {
            _ = try ListeningSocket(self)
        } catch {
            throw Failure(error, from: setting)
        }
    }
}

extension Failure {
    /// Of the configuration where nothing but another value would do: an address that is none of this machine's, a folder
    /// that is not there.
    init(_ error: ListenError, from setting: Setting) {
        let isGood: Bool
        switch error.place {
        case .tcp(let host, _, _): isGood = (try? ListeningSocket(host: host, port: 0)) != nil
        case .unix: isGood = error.asksForAnother
        }
        let advice = error.asksForAnother ? " with \(setting.option)" : ""
        self.init(error.description + advice, status: isGood ? .general : .configuration)
    }
}
