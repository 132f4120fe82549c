import Clock
import HTTP
import Reactor
import Synchronization

/// Who is connected, over all loops: bounds, rates, and the loop with the fewest. Looked at when a connection comes, goes or
/// turns out to be somebody else's, never for a message.
final class ConnectionCensus: Sendable {
    /// What becomes of a connection just accepted.
    enum Admission: Equatable {
        case welcome(loop: Int)
        /// Let in only to be told why not.
        case refused(loop: Int, Refusal)
        /// Too many even for that.
        case shut(Refusal)
    }

    /// What becomes of a connection that a trusted peer says is a client's.
    enum Move: Equatable {
        /// It counts as the client's.
        case taken
        /// It counts as the client's, as one of those who are only to be told why not.
        case refused(Refusal)
        /// Too many of the client's are being told: it is closed as soon as it was told, and counts as what it was till then.
        case ended(Refusal)
    }

    /// The bound that a connection is beyond.
    enum Refusal: String, Sendable, CaseIterable {
        case hubFull = "hub_full"
        case addressFull = "address_full"
        case addressFast = "address_fast"
    }

    /// The connections of one address; of IPv6, of one network.
    private struct Presence {
        var count = 0
        /// Those of them who are only to be told that they are too many.
        var refused = 0
    }

    private struct State {
        var perLoop: [Int]
        var perAddress: [PeerAddress: Presence] = [:]
        var rates: AddressRates
        var total = 0
    }

    private let limits: GatewayLimits
    private let trusted: TrustedPeers
    private let state: Locked<State>
    /// Connections that were counted out and have still to be closed.
    private let departing = Atomic<Int>(0)

    init(loops: Int, limits: GatewayLimits, trusted: TrustedPeers = TrustedPeers()) {
        self.limits = limits
        self.trusted = trusted
        let rates = AddressRates(perSecond: limits.addressConnectsPerSecond, burst: limits.addressConnectsBurst)
        state = Locked(State(perLoop: Array(repeating: 0, count: loops), rates: rates))
    }

    /// Connections, those included that have still to be closed.
    var total: Int { state.withLock { $0.total } + departing.load(ordering: .relaxed) }
    /// Whether some have.
    var hasDepartures: Bool { departing.load(ordering: .relaxed) > 0 }

    /// Whether all descriptors that connections may have are taken, some of them by connections that have still to be
    /// closed: whoever comes next waits for theirs.
    var awaitsDepartures: Bool { hasDepartures && total >= limits.connectionsMax + limits.refusalsMax }

    /// Counts a connection in, unless it is shut out; every one counted in is counted out by `left`.
    func arrived(from peer: PeerAddress, at now: Instant) -> Admission {
        state.withLock { state in
            guard state.total < limits.connectionsMax + limits.refusalsMax else { return .shut(.hubFull) }
            var refusal = state.total < limits.connectionsMax ? nil : Refusal.hubFull
            if refusal == nil, isFull(peer, state) { refusal = .addressFull }
            if refusal == nil, isFast(peer, at: now, &state) { refusal = .addressFast }
            // Those who are only told that they are too many must not be so many themselves that they fill the hub.
            if let refusal, refusal != .hubFull, refusesNoMore(peer, state) { return .shut(refusal) }
            var loop = 0
            for other in state.perLoop.indices where state.perLoop[other] < state.perLoop[loop] { loop = other }
            state.total += 1
            state.perLoop[loop] += 1
            enter(peer, isRefused: refusal != nil, &state)
            return refusal.map { .refused(loop: loop, $0) } ?? .welcome(loop: loop)
        }
    }

    /// A trusted peer has said for whom it speaks: the connection counts as that client's, unless there is a bound against
    /// it.
    ///
    /// - Parameter begins: whether the client begins a connection with this, and not just a request: a proxy sends those of
    ///   many over the connections that it keeps, each time for another.
    func moved(from peer: PeerAddress, to client: PeerAddress, at now: Instant, begins: Bool) -> Move {
        state.withLock { state in
            var refusal: Refusal?
            if peer.network != client.network, isFull(client, state) { refusal = .addressFull }
            if refusal == nil, begins, isFast(client, at: now, &state) { refusal = .addressFast }
            if let refusal, refusesNoMore(client, state) { return .ended(refusal) }
            leave(peer, wasRefused: false, &state)
            enter(client, isRefused: refusal != nil, &state)
            return refusal.map { .refused($0) } ?? .taken
        }
    }

    func left(_ address: PeerAddress, loop: Int, wasRefused: Bool) {
        state.withLock { state in
            state.total -= 1
            state.perLoop[loop] -= 1
            leave(address, wasRefused: wasRefused, &state)
        }
    }

    /// The peer has gone: whoever comes next is not refused for it. Its descriptor is taken until `closedDeparted`.
    func departed(_ address: PeerAddress, loop: Int, wasRefused: Bool) {
        departing.add(1, ordering: .relaxed)
        left(address, loop: loop, wasRefused: wasRefused)
    }

    func closedDeparted() {
        departing.subtract(1, ordering: .relaxed)
    }

    /// Who speaks for many, or may.
    private func isExempt(_ peer: PeerAddress) -> Bool {
        (limits.exemptsLoopback && peer.isOfThisMachine) || trusted.contains(peer)
    }

    /// Whether the address has as many connections as it may.
    private func isFull(_ address: PeerAddress, _ state: State) -> Bool {
        guard let most = limits.connectionsPerAddressMax, !isExempt(address) else { return false }
        let presence = state.perAddress[address.network] ?? Presence()
        return presence.count - presence.refused >= most
    }

    /// Whether the address connects more often than it may; else it has done so once more.
    private func isFast(_ address: PeerAddress, at now: Instant, _ state: inout State) -> Bool {
        !isExempt(address) && !state.rates.take(address.network, at: now)
    }

    /// Whether as many connections of the address are being told that they are too many as may be.
    private func refusesNoMore(_ address: PeerAddress, _ state: State) -> Bool {
        (state.perAddress[address.network]?.refused ?? 0) >= limits.refusalsPerAddressMax
    }

    private func enter(_ address: PeerAddress, isRefused: Bool, _ state: inout State) {
        state.perAddress[address.network, default: Presence()].count += 1
        if isRefused { state.perAddress[address.network, default: Presence()].refused += 1 }
    }

    private func leave(_ address: PeerAddress, wasRefused: Bool, _ state: inout State) {
        guard var presence = state.perAddress[address.network] else { return }
        presence.count -= 1
        if wasRefused { presence.refused -= 1 }
        state.perAddress[address.network] = presence.count > 0 ? presence : nil
    }
}

extension ConnectionCensus.Refusal {
    var status: Status {
        switch self {
        case .hubFull: .serviceUnavailable
        case .addressFull, .addressFast: .tooManyRequests
        }
    }

    var message: StaticString {
        switch self {
        case .hubFull: "This hub has as many connections as it may have."
        case .addressFull: "This address has as many connections as it may have."
        case .addressFast: "This address connects more often than it may."
        }
    }
}
