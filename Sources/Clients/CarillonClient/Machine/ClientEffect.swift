import JSON

/// What the machine asks for. It does no I/O itself.
enum ClientEffect: Sendable {
    /// Open a connection, in place of any.
    case connect
    /// End the connection.
    case disconnect
    case send(String)
    /// Ask the app for a token.
    case token(serial: Int)
    /// Fetch snapshots of a topic, in order.
    case fetch(Topic, [ClientSnapshot.Part], serial: Int)
    /// Ask the app to have a channel signed for this socket.
    case authorize(channel: String, socketID: String, serial: Int)
    case timer(MachineTimer, milliseconds: Int)
    case cancel(MachineTimer)
    /// The state that apps see.
    case connection(CarillonConnection)
    /// What went wrong; nil: all is well again.
    case problem(CarillonError?)
    /// The store has changed: values are to be computed again.
    case changed
    /// A message on a channel that is not the client's own.
    case message(channel: String, event: String, data: String)
}

/// Each runs once at a time.
enum MachineTimer: Hashable, Sendable {
    case reconnect, quiet, signIn, retry, patience
    case stream(Topic)
    case complete
}

/// Where the connection is.
public enum CarillonConnection: String, Sendable {
    case offline, connecting
    case signingIn = "signing_in"
    case connected
    /// The hub said: stay away.
    case refused
    case closed
}

/// A wait at random, from nothing to a bound that doubles with each attempt: full jitter.
struct JitteredWait: Sendable {
    var baseMs = 1000.0
    var capMs = 30_000.0
    private(set) var attempt = 0

    /// The next wait. `random` is in 0 ..< 1.
    mutating func next(_ random: Double) -> Int {
        defer { attempt += 1 }
        return Int(random * min(capMs, baseMs * Double(1 << min(attempt, 20))))
    }

    mutating func reset() { attempt = 0 }
}
