import Reactor

extension ListenAddress {
    /// Looks whether a hub could listen here now, before long work is done for nothing.
    ///
    /// - Throws: a failure that says what is in the way.
    func checkFree() throws(Failure) {
        do throws(ListenError) {
            _ = try ListeningSocket(host: host, port: port)
        } catch {
            throw Failure(error, at: self)
        }
    }
}

extension Failure {
    /// Of the configuration where no port of the address would do, which is none of this machine's then.
    init(_ error: ListenError, at address: ListenAddress) {
        let isAddressGood = (try? ListeningSocket(host: address.host, port: 0)) != nil
        self.init(error.description, status: isAddressGood ? .general : .configuration)
    }
}
