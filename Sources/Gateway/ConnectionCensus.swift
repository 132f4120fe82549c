import Reactor

/// Who is connected, over all loops: bounds, and the loop with the fewest. Looked at when a connection comes or goes,
/// never for a message.
final class ConnectionCensus: Sendable {
    /// What becomes of a connection just accepted.
    enum Admission: Equatable {
        case welcome(loop: Int)
        /// Let in only to be told that the hub, or its address, has too many.
        case refused(loop: Int, Refusal)
        /// Too many even for that.
        case shut
    }

    enum Refusal: Equatable, Sendable {
        case hubFull, addressFull
    }

    private struct State {
        var perLoop: [Int]
        var perAddress: [PeerAddress: Int] = [:]
        var total = 0
    }

    private let limits: GatewayLimits
    private let state: Locked<State>

    init(loops: Int, limits: GatewayLimits) {
        self.limits = limits
        state = Locked(State(perLoop: Array(repeating: 0, count: loops)))
    }

    var total: Int { state.withLock { $0.total } }

    /// Counts a connection in, unless it is shut out; every one counted in is counted out by `left`.
    func arrived(from address: PeerAddress) -> Admission {
        state.withLock { state in
            guard state.total < limits.connectionsMax + limits.refusalsMax else { return .shut }
            let sameAddress = state.perAddress[address, default: 0]
            let isExempt = limits.exemptsLoopback && address.isLoopback
            let most = isExempt ? Int.max / 2 : limits.connectionsPerAddressMax ?? Int.max / 2
            // Those who are only told that they are too many must not be so many themselves that they fill the hub.
            guard sameAddress < most + limits.refusalsPerAddressMax else { return .shut }
            var loop = 0
            for other in state.perLoop.indices where state.perLoop[other] < state.perLoop[loop] { loop = other }
            state.total += 1
            state.perLoop[loop] += 1
            state.perAddress[address] = sameAddress + 1
            if state.total > limits.connectionsMax { return .refused(loop: loop, .hubFull) }
            if sameAddress >= most { return .refused(loop: loop, .addressFull) }
            return .welcome(loop: loop)
        }
    }

    func left(_ address: PeerAddress, loop: Int) {
        state.withLock { state in
            state.total -= 1
            state.perLoop[loop] -= 1
            let rest = state.perAddress[address, default: 1] - 1
            state.perAddress[address] = rest > 0 ? rest : nil
        }
    }
}
