import Reactor

extension Settings {
    /// Checks that a hub could listen now, before long work is done in vain.
    ///
    /// - Throws: a failure that says what is in the way.
    func checkFree() throws(Failure) {
        for endpoint in listenEndpoints { try endpoint.checkFree(for: SettingsTable[\.listen]) }
        if let pages = operations {
            try ListenEndpoint.tcp(host: pages.host, port: pages.port).checkFree(for: SettingsTable[\.operations])
        }
    }
}

extension ListenEndpoint {
    /// Checks that a hub could listen here now.
    ///
    /// - Parameter setting: the setting that gave the address.
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
    /// A configuration failure when only another value helps: an address of another machine, a missing folder.
    init(_ error: ListenError, from setting: Setting) {
        let isGood: Bool
        switch error.endpoint {
        case .tcp(let host, _, _): isGood = (try? ListeningSocket(host: host, port: 0)) != nil
        case .unix: isGood = error.asksForAnother
        }
        let advice = error.asksForAnother ? " with \(setting.option)" : ""
        self.init(error.description + advice, status: isGood ? .general : .configuration)
    }
}
