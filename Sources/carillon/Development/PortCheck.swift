import Reactor

extension ListenAddress {
    /// Looks whether a hub could listen here now, before long work is done for nothing.
    ///
    /// - Throws: a failure that says what is in the way.
    func checkFree() throws(Failure) {
        do throws(ListenError) {
            _ = try ListeningSocket(host: host, port: port)
        } catch {
            throw Failure(error.description)
        }
    }
}
