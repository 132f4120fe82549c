import Pusher

/// A server to measure, and its protocol.
struct MeasuredServer {
    enum Kind: String, CaseIterable {
        /// A hub: devices sign in and subscribe to their user's channels. Sending requires the control port of
        /// loadtest/Core.
        case hub
        /// A hub over TLS with a full handshake per connection; the certificate is not verified.
        case tls
        /// A hub over TLS; all connections resume the session of the first.
        case resumed
        /// Full and resumed handshakes over TLS 1.2.
        case tls12, resumed12
        /// Any server of Pusher's protocol: devices subscribe to one public channel, and signed calls of its HTTP API send.
        case pusher
        /// A Pusher server with presence channels; each device is its own member.
        case presence
        /// The bare sender of loadtest/Limit: the path names the channel.
        case bare
        /// nginx with Nchan, configured by loadtest/nchan.conf: the path names the channel.
        case nchan

        var isHub: Bool { self == .hub || speaksTLS }
        var resumes: Bool { self == .resumed || self == .resumed12 }
        fileprivate var isTLS12: Bool { self == .tls12 || self == .resumed12 }
        fileprivate var speaksTLS: Bool { self == .tls || self == .resumed || isTLS12 }
    }

    let name: String
    let kind: Kind
    let address: LoadAddress
    /// All that its devices connect to, in turn.
    let addresses: [LoadAddress]
    /// Where to request messages; nil if it has no such port.
    let control: LoadAddress?
    /// Nil if its process is unknown.
    let meter: ProcessMeter?

    /// From `NAME=KIND:PORT:PID`, or `NAME=KIND:PORT:PID:CONTROL` for hubs, with ports of 127.0.0.1. Several processes that
    /// are one server have `PORT+PORT` and `PID+PID`: devices are spread over the ports, and the first is made to send.
    init(_ text: String) throws(LoadFailure) {
        let halves = text.split(separator: "=", maxSplits: 1)
        let parts = (halves.last ?? "").split(separator: ":").map(String.init)
        guard halves.count == 2, parts.count == 3 || parts.count == 4, let kind = Kind(rawValue: parts[0]),
            case let pids = parts[2].split(separator: "+").compactMap({ Int32($0) }), !pids.isEmpty,
            case let ports = parts[1].split(separator: "+"), !ports.isEmpty
        else {
            let kinds = Kind.allCases.map(\.rawValue).joined(separator: ", ")
            throw LoadFailure("--server \(text): NAME=KIND:PORT:PID[:CONTROL] is needed, with a kind of \(kinds)")
        }
        name = String(halves[0])
        self.kind = kind
        var addresses: [LoadAddress] = []
        for port in ports {
            var address = try LoadAddress((kind.speaksTLS ? "wss://" : "") + "127.0.0.1:\(port)")
            address.security?.resumes = kind.resumes
            if kind.isTLS12 { address.security?.newest = .tls12 }
            addresses.append(address)
        }
        let address = addresses[0]
        (self.address, self.addresses) = (address, addresses)
        if !kind.isHub {
            control = address
        } else if parts.count == 4 {
            control = try LoadAddress("127.0.0.1:\(parts[3])")
        } else {
            control = nil
        }
        meter = try ProcessMeter(pids: pids)
    }

    init(_ options: HubOptions) throws {
        name = "hub"
        kind = .hub
        address = try options.address()
        addresses = [address]
        control = nil
        meter = try options.process()
    }

    /// Path and query of the upgrade, and whether the number of the device's user is appended.
    func target(appKey: String) -> (path: String, isNumbered: Bool) {
        switch kind {
        case .hub, .tls, .resumed, .tls12, .resumed12, .pusher, .presence:
            ("/app/\(appKey)?protocol=7&client=loadtest", false)
        case .bare: ("/receive/", true)
        case .nchan: ("/sub/", true)
        }
    }

    func script(_ credentials: AppCredentials, _ names: Names) -> any DeviceScript {
        switch kind {
        case .hub, .tls, .resumed, .tls12, .resumed12: HubScript(credentials, names)
        case .pusher: PusherScript(credentials, names, .public)
        case .presence: PusherScript(credentials, names, .presence)
        case .bare, .nchan: ListeningScript()
        }
    }
}

/// A device that is live once it is connected.
private final class ListeningScript: DeviceScript {
    func opened(_ device: LoadDevice) {
        device.speakOnce()
        device.becomeLive()
    }

    func received(_ text: UnsafeRawBufferPointer, by device: LoadDevice) {}
}
