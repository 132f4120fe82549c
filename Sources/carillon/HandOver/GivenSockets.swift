import Glibc
import Reactor

/// The sockets that a hub is given at its start.
struct GivenSockets {
    /// By systemd, which holds them, too.
    var systemd: [InheritedSocket] = []
    /// The hub before this one; nil: there is none to take over from.
    var predecessor: Predecessor?

    static let none = GivenSockets()

    /// The hub before this one, which serves on until this one is ready.
    struct Predecessor {
        let connection: Int32
        let process: Int32
        let sockets: [InheritedSocket]
    }

    static let firstDescriptor: Int32 = 3
    static let countMax: Int32 = 64

    /// The descriptors of socket activation (sd_listen_fds(3)): those from 3 on, if the environment means this process.
    ///
    /// - Parameter process: the id of this process.
    /// - Throws: a configuration `Failure` for a number that is none.
    static func systemd(
        _ environment: [String: String], process: Int32 = getpid()
    ) throws(Failure) -> [InheritedSocket] {
        guard let meant = environment["LISTEN_PID"], let given = environment["LISTEN_FDS"], Int32(meant) == process
        else { return [] }
        guard let count = Int32(given), (0...countMax).contains(count) else {
            throw Failure(
                "environment LISTEN_FDS: \"\(given)\" must be a whole number from 0 to \(countMax)",
                status: .configuration)
        }
        let names = environment["LISTEN_FDNAMES"]?.split(separator: ":", omittingEmptySubsequences: false) ?? []
        return (0..<count).map { index in
            let name = Int(index) < names.count ? String(names[Int(index)]).printable : "unknown"
            return InheritedSocket(firstDescriptor + index, name: name)
        }
    }
}
