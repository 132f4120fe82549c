import Bytes
import Channels
import Pusher
import Reactor

/// Connections whose peer has gone, which have still to be closed; and those who come when thousands go.
///
/// To close one takes some microseconds: out of its channels, out of the kernel. So the loop only marks it when it meets
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
/// - has an answer of a home or of the store under way: that is taken in, so that what it leaves is what the home counts;
/// - was the member of a presence channel: its user comes back before its turn, is one more connection of the same
///   member, and stays when the turn has come. Where the channel is full, those of it are closed first that are marked;
/// - is there when the hub ends: the loop goes on until the list is done.
extension ClientLoop {
    /// The peer of an open WebSocket has gone.
    func departed(_ connection: Connection) {
        hubContext.census.departed(connection.address, loop: number, wasRefused: connection.wasRefused)
        departures.append(connection.sessionID)
        awaitDepartureTurn()
    }

    private func awaitDepartureTurn() {
        guard !awaitsDepartureTurn else { return }
        awaitsDepartureTurn = true
        mailbox.post(.departuresDue)
    }

    /// Closes the next ones.
    func closeDeparted() {
        awaitsDepartureTurn = false
        var rest = limits.departuresPerTurnMax
        while rest > 0, let id = departures.popFirst() {
            // One that was closed otherwise costs nothing.
            guard let connection = connection(id) else { continue }
            connection.drop()
            rest -= 1
        }
        if !departures.isEmpty { awaitDepartureTurn() }
    }

    // MARK: Newcomers

    /// The most newcomers that are looked at before their time: the latest, for the others have been.
    static let overtakersMax = 128

    /// A connection was taken in.
    func came(_ connection: Connection) {
        guard loop.isCrowded else {
            if !newcomers.isEmpty { newcomers.removeAll() }
            return
        }
        if newcomers.count == Self.overtakersMax { newcomers.removeFirst() }
        newcomers.append(connection.sessionID)
    }

    /// More is ready than one turn takes: it may be thousands whose peers have gone, and who comes now stands behind them in
    /// the kernel's list. So newcomers are looked at, and taken in, once in each such turn.
    func overtake() {
        for acceptor in acceptors where acceptor.interest.contains(.readable) { acceptor.ready(.readable) }
        for id in newcomers {
            guard let connection = connection(id), connection.interest.contains(.readable) else { continue }
            connection.ready(.readable)
        }
    }

    // MARK: Full presence channels

    /// Whether the home would refuse the newcomer for members of whom some may be gone.
    func mayMakeRoom(for request: ChannelRequest) -> Bool {
        guard case .enter(let entry) = request, entry.member != nil else { return false }
        return hubContext.census.hasDepartures && channelHome.isFull(for: entry)
    }

    /// Has each loop close those that are marked of the channel, and then lets the home judge: their leaves stand before the
    /// request in its mailbox.
    func makeRoom(for request: ChannelRequest, from loop: Int) {
        let key = request.key
        closeDeparted(in: key)
        let others = hubContext.mailboxes.indices.filter {
            $0 != number && channelHome.loops(in: key).contains(loop: $0)
        }
        guard !others.isEmpty else { return atHome(request, from: loop) }
        let mailbox = mailbox
        let gather = Gather<Void>(others.count) { _ in mailbox.post(.roomMade(request, from: loop)) }
        for (place, other) in others.enumerated() {
            hubContext.mailboxes[other].post(.ask { gather.take($0.closeDeparted(in: key), at: place) })
        }
    }

    private func closeDeparted(in key: ChannelKey) {
        // A copy: one that is closed leaves the channel.
        guard let subscribers = hub.channel(key)?.subscribers else { return }
        for id in subscribers {
            guard let connection = connection(id), connection.phase == .departed else { continue }
            connection.drop()
        }
    }
}
