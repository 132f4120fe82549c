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
        let waysOut = error.isForbiddenPort ? ": \(Settings.waysToLowPorts(setting))" : ""
        self.init(
            error.description + advice + waysOut, status: isGood && !error.isForbiddenPort ? .general : .configuration)
    }
}

extension Settings {
    /// What lets a hub take a port below 1024.
    fileprivate static func waysToLowPorts(_ setting: Setting) -> String {
        """
        give its unit AmbientCapabilities=CAP_NET_BIND_SERVICE and CapabilityBoundingSet=CAP_NET_BIND_SERVICE (systemctl \
        edit), or let carillon.socket hold the port, or choose one from 1024 on with \(setting.option)
        """
    }

    /// Ports that the hub's user may not take without more rights, and how it gets them. `check-config` runs as any user,
    /// and cannot tell what the hub's may.
    var lowPorts: [String] {
        let ports =
            listen.compactMap(\.address).map { ($0, SettingsTable[\.listen]) }
            + (operations.map { [($0, SettingsTable[\.operations])] } ?? [])
        return ports.filter { 1..<1024 ~= $0.0.port }.map { address, setting in
            "\(setting.key): \(address) is a port below 1024, which the hub's user may not take without more: "
                + Self.waysToLowPorts(setting)
        }
    }
}
