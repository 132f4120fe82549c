import Bytes
import HubEngine
import Reactor

/// Connections with work done in turns: those that sent more than one turn takes, and those whose peers have gone.
///
/// Closing a connection takes some microseconds: out of its channels, out of the kernel. So when everything a peer sent has
/// been read, up to the end, the loop only marks the connection and stops watching its socket. Marked connections are closed
/// in turns of `GatewayLimits.departuresPerTurnMax`, each behind whatever else is ready by then, newcomers included.
///
/// The list is no longer than there were connections. Its descriptors count against `AdmissionLimits.connectionsMax` with
/// the open ones (`AdmissionControl.awaitsDepartures`), but no longer against the bounds of an address or an app.
///
/// Worst interleavings, each with its test in `GraceEndTests`; a marked connection
/// - is sent something: it is still a subscriber, takes frames until the tick ends, and drops them then;
/// - is terminated, revoked, out of time for an identity, or of a removed app: it takes no close frame and keeps its turn;
/// - is found slow by what is queued to all: it is closed at once, and its list entry is stale;
/// - has an answer of an owner or of the store in flight: it is taken, so that what it leaves is what the owner counts;
/// - was the member of a presence channel: its user comes back before its turn, is one more connection of the same member,
///   and stays after the turn. If the channel is full, its marked members are closed first;
/// - is there when the hub ends: the loop goes on until the list is empty.
final class ConnectionTurns {
    private let loop: EventLoop
    private let engine: SessionEngine
    private let due: DueWork
    private let settings: ConnectionSettings
    private var departures = Fifo<SessionID>()
    private var turns = Fifo<SessionID>()
    private var strangers = StrangerTurns()

    init(on loop: EventLoop, _ engine: SessionEngine, _ due: DueWork, _ settings: ConnectionSettings) {
        self.loop = loop
        self.engine = engine
        self.due = due
        self.settings = settings
    }

    // MARK: Departures

    func departed(_ id: SessionID) {
        departures.append(id)
        due.setNow(.departures)
    }

    func closeDeparted() {
        var rest = settings.limits.departuresPerTurnMax
        while rest > 0, let id = departures.popFirst() {
            // One that was closed otherwise costs nothing.
            guard let connection = loop.connection(id) else { continue }
            connection.drop()
            rest -= 1
        }
        if !departures.isEmpty { due.setNow(.departures) }
    }

    /// Closes marked connections that are subscribers of the channel.
    func closeDeparted(in key: ChannelKey) {
        // A copy, because a closed one leaves the channel.
        guard let subscribers = engine.channels[key]?.subscribers else { return }
        for id in subscribers {
            guard let connection = loop.connection(id), connection.hasEnded else { continue }
            connection.drop()
        }
    }

    // MARK: Turns

    /// A connection has more to handle when others have had their turns.
    func wants(_ id: SessionID) {
        turns.append(id)
        due.setNow(.turns)
    }

    /// Gives the next connections their turns. One that wants another turn queues behind all others.
    func take() {
        for _ in 0..<min(turns.count, settings.limits.turnsPerTickMax) {
            guard let id = turns.popFirst() else { break }
            loop.connection(id)?.goOn()
        }
        if !turns.isEmpty { due.setNow(.turns) }
    }

    // MARK: Strangers

    /// The connection's request does not say who sends it, and waits for the turn of its address.
    func strangerWaits(_ id: SessionID, of address: PeerAddress) {
        strangers.append(id, of: address)
        due.setNow(.strangers)
    }

    func takeStrangers() {
        for id in strangers.take() {
            guard let connection = loop.connection(id), let conversation = connection.conversation else { continue }
            RequestTurn(of: conversation, connection).came()
        }
        if !strangers.isEmpty { due.setNow(.strangers) }
    }
}
