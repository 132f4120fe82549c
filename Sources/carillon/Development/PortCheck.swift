import Reactor

extension ListenAddress {
    /// Looks whether a hub could listen here now, before long work is done for nothing.
    ///
    /// - Parameter setting: where the address is from.
    /// - Throws: a failure that says what is in the way.
    func checkFree(for setting: SettingRow) throws(Failure) {
        do throws(ListenError) {
            _ = try ListeningSocket(host: host, port: port)
        } catch {
            throw Failure(error, at: self, from: setting)
        }
    }
}

extension Failure {
    /// Of the configuration where no port of the address would do, which is none of this machine's then.
    init(_ error: ListenError, at address: ListenAddress, from setting: SettingRow) {
        let isAddressGood = (try? ListeningSocket(host: address.host, port: 0)) != nil
        let advice = error.asksForAnotherPort ? " with \(setting.option)" : ""
        self.init(error.description + advice, status: isAddressGood ? .general : .configuration)
    }
}
