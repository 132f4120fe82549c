import Clock
import HTTP
import HubEngine
import Reactor
import Synchronization

/// Counts connections over all loops: bounds, rates, and the loop with the fewest. Used when a connection comes, goes or is
/// moved to a client's address, never for a message.
final class AdmissionControl: Sendable {
    /// The decision on a connection just accepted.
    enum Decision: Equatable {
        case welcome(loop: Int)
        /// Its address connects often: it begins at that time.
        case waits(loop: Int, until: Instant)
        /// Let in only to be told why not.
        case refused(loop: Int, Refusal)
        /// Too many even for that.
        case shut(Refusal)
    }

    /// The decision on a connection that a trusted peer says is a client's.
    enum Move: Equatable {
        /// It counts as the client's.
        case taken
        /// It counts as the client's, who connects often: it begins at that time.
        case waits(until: Instant)
        /// It counts as the client's, among those that are only told why not.
        case refused(Refusal)
        /// Too many of the client's are being told. It is closed once told, and counts as the peer's until then.
        case ended(Refusal)
    }

    /// The bound that a connection exceeds.
    enum Refusal: String, Sendable, CaseIterable {
        case hubFull = "hub_full"
        case addressFull = "address_full"
        case addressFast = "address_fast"
    }

    /// The connections of one address, or of one IPv6 network.
    private struct Presence {
        var count = 0
        /// Those of them that are only told that they are too many.
        var refused = 0
    }

    private struct State {
        var perLoop: [Int]
        var perAddress: [PeerAddress: Presence] = [:]
        var rates: AddressRates
        var total = 0
    }

    private let limits: AdmissionLimits
    private let trusted: TrustedPeers
    private let state: Locked<State>
    /// Requests of those who do not say who they are, by address.
    private let strangers: Locked<AddressRates>
    /// Event streams that users begin.
    private let streams: Locked<AddressRates>
    /// Connections that were counted out and have still to be closed.
    private let departing = Atomic<Int>(0)

    init(loops: Int, limits: AdmissionLimits, trusted: TrustedPeers = TrustedPeers()) {
        self.limits = limits
        self.trusted = trusted
        let rates = AddressRates(
            perSecond: limits.addressConnectsPerSecond, burst: limits.addressConnectsBurst,
            waitingMax: limits.addressConnectsWaitingMax)
        strangers = Locked(
            AddressRates(
                perSecond: limits.strangerRequestsPerSecond, burst: limits.strangerRequestsBurst, waitingMax: 0))
        streams = Locked(
            AddressRates(perSecond: limits.userStreamsPerSecond, burst: limits.userStreamsBurst, waitingMax: 0))
        state = Locked(State(perLoop: Array(repeating: 0, count: loops), rates: rates))
    }

    /// Connections, including those that have still to be closed.
    var total: Int { state.withLock { $0.total } + departing.load(ordering: .relaxed) }
    var hasDepartures: Bool { departing.load(ordering: .relaxed) > 0 }

    /// Whether all descriptors for connections are taken, some by connections still to be closed: newcomers wait for those.
    var awaitsDepartures: Bool { hasDepartures && total >= limits.connectionsMax + limits.refusalsMax }

    /// Counts a connection in, unless it is shut out. Each one counted in is counted out by `left`.
    func arrived(from peer: PeerAddress, at now: Instant) -> Decision {
        state.withLock { state in
            guard state.total < limits.connectionsMax + limits.refusalsMax else { return .shut(.hubFull) }
            var refusal = state.total < limits.connectionsMax ? nil : Refusal.hubFull
            if refusal == nil, isFull(peer, state) { refusal = .addressFull }
            var wait = Duration.zero
            if refusal == nil { wait = turn(of: peer, at: now, orIs: &refusal, &state) }
            // Connections that are only told that they are too many must not fill the hub themselves.
            if let refusal, refusal != .hubFull, refusesNoMore(peer, state) { return .shut(refusal) }
            var loop = 0
            for other in state.perLoop.indices where state.perLoop[other] < state.perLoop[loop] { loop = other }
            state.total += 1
            state.perLoop[loop] += 1
            enter(peer, isRefused: refusal != nil, &state)
            if let refusal { return .refused(loop: loop, refusal) }
            return wait > .zero ? .waits(loop: loop, until: now.advanced(by: wait)) : .welcome(loop: loop)
        }
    }

    /// A trusted peer has named its client: the connection counts as that client's, unless a bound forbids it.
    ///
    /// - Parameter begins: whether the client begins a connection with this. A proxy also sends single requests, each for
    ///   another client, over the connections that it keeps.
    func moved(from peer: PeerAddress, to client: PeerAddress, at now: Instant, begins: Bool) -> Move {
        state.withLock { state in
            var refusal: Refusal?
            if peer.network != client.network, isFull(client, state) { refusal = .addressFull }
            var wait = Duration.zero
            if refusal == nil, begins { wait = turn(of: client, at: now, orIs: &refusal, &state) }
            if let refusal, refusesNoMore(client, state) { return .ended(refusal) }
            leave(peer, wasRefused: false, &state)
            enter(client, isRefused: refusal != nil, &state)
            if let refusal { return .refused(refusal) }
            return wait > .zero ? .waits(until: now.advanced(by: wait)) : .taken
        }
    }

    /// Whether requests that do not say who sends them have a bound.
    var boundsStrangers: Bool { limits.strangerRequestsPerSecond > 0 }

    /// Counts such a request; false where the address has sent as many as it may. A proxy on this machine is not exempt: its
    /// users have tokens. One that is trusted names its clients, and is exempt for what it asks itself.
    func mayAsk(_ address: PeerAddress, at now: Instant) -> Bool {
        guard boundsStrangers, !trusted.contains(address) else { return true }
        return strangers.withLock { $0.take(address.network, at: now) } != nil
    }

    /// Counts an event stream that a user begins; false where there were as many as there may be.
    func mayBeginStream(_ identity: Identity, at now: Instant) -> Bool {
        streams.withLock { $0.take(identity.code, at: now) } != nil
    }

    func left(_ address: PeerAddress, loop: Int, wasRefused: Bool) {
        state.withLock { state in
            state.total -= 1
            state.perLoop[loop] -= 1
            leave(address, wasRefused: wasRefused, &state)
        }
    }

    /// The peer has gone: no newcomer is refused because of it. Its descriptor is taken until `closedDeparted`.
    func departed(_ address: PeerAddress, loop: Int, wasRefused: Bool) {
        departing.add(1, ordering: .relaxed)
        left(address, loop: loop, wasRefused: wasRefused)
    }

    func closedDeparted() {
        departing.subtract(1, ordering: .relaxed)
    }

    /// Whether the peer speaks for many clients, and so has no bounds of its own.
    private func isExempt(_ peer: PeerAddress) -> Bool {
        (limits.exemptsLoopback && peer.isOfThisMachine) || trusted.contains(peer)
    }

    private func isFull(_ address: PeerAddress, _ state: State) -> Bool {
        guard let most = limits.connectionsPerAddressMax, !isExempt(address) else { return false }
        let presence = state.perAddress[address.network] ?? Presence()
        return presence.count - presence.refused >= most
    }

    /// How long the address's connection waits for its turn; a refusal where too many wait.
    private func turn(
        of address: PeerAddress, at now: Instant, orIs refusal: inout Refusal?, _ state: inout State
    ) -> Duration {
        if isExempt(address) { return .zero }
        guard let wait = state.rates.take(address.network, at: now) else {
            refusal = .addressFast
            return .zero
        }
        return wait
    }

    /// Whether as many of the address's connections are being refused with an answer as allowed.
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

extension AdmissionControl.Refusal {
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
