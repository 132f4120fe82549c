import Bytes
import Channels
import Reactor

/// Connections that have something to be done in turns: those that have sent more than one turn takes, and those whose peers
/// have gone, which have still to be closed.
///
/// To close a connection takes some microseconds: out of its channels, out of the kernel. So the loop only marks it when it meets
/// the end of what the peer has sent, after all that came before has been read, and looks at its socket no more. It is
/// closed in turns of `GatewayLimits.departuresPerTurnMax`, each behind whatever else is ready by then, newcomers among it.
///
/// The list is no longer than there were connections, and its descriptors count against `limits.connectionsMax` with those
/// that are open (`ConnectionCensus.awaitsDepartures`); against the bounds of an address and of an app they count no more.
///
/// Worst interleavings, each with its test in `DepartureTests`; one that is marked
/// - is sent something: it is still a subscriber, takes frames until the tick ends, and forgets them then;
/// - is terminated, revoked, told to wait no longer for an identity, or of an app that is served no more: it takes no
///   close frame, and its turn comes as that of any other;
/// - is found slow by what is queued to all: it is closed at once, and its place in the list stands for nobody;
/// - has an answer of an owner or of the store under way: that is taken in, so that what it leaves is what the owner counts;
/// - was the member of a presence channel: its user comes back before its turn, is one more connection of the same
///   member, and stays when the turn has come. Where the channel is full, those of it are closed first that are marked;
/// - is there when the hub ends: the loop goes on until the list is done.
final class ConnectionTurns {
    private let loop: EventLoop
    private let hub: Hub
    private let due: DueWork
    private let settings: ConnectionSettings
    private var departures = Fifo<SessionID>()
    private var turns = Fifo<SessionID>()

    init(on loop: EventLoop, _ hub: Hub, _ due: DueWork, _ settings: ConnectionSettings) {
        self.loop = loop
        self.hub = hub
        self.due = due
        self.settings = settings
    }

    // MARK: Departures

    /// The peer of an open WebSocket has gone.
    func departed(_ id: SessionID) {
        departures.append(id)
        due.setNow(.departures)
    }

    /// Closes the next ones.
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

    /// Closes those that are subscribers of the channel.
    func closeDeparted(in key: ChannelKey) {
        // A copy: one that is closed leaves the channel.
        guard let subscribers = hub.channels[key]?.subscribers else { return }
        for id in subscribers {
            guard let connection = loop.connection(id), connection.hasEnded else { continue }
            connection.drop()
        }
    }

    // MARK: Turns

    /// A connection has more to be looked at, when others have had their turns.
    func wants(_ id: SessionID) {
        turns.append(id)
        due.setNow(.turns)
    }

    /// Gives the next ones their turns; one that wants another stands behind all others.
    func take() {
        for _ in 0..<min(turns.count, settings.limits.turnsPerTickMax) {
            guard let id = turns.popFirst() else { break }
            loop.connection(id)?.goOn()
        }
        if !turns.isEmpty { due.setNow(.turns) }
    }
}
