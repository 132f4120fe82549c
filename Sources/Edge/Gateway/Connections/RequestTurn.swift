import Clock
import HTTP
import HubEngine
import Reactor
import Store

/// A request on its way to the routes. One that does not say who sends it, or whose token or signature is not good, is a
/// stranger's. An address has a rate of these, and those that come at once share a turn of the loop (`StrangerTurns`).
/// Without that, some dozens of connections that ask for nothing in particular keep a loop busy, and everybody's events wait
/// behind them.
///
/// A request that does not say who sends it is counted before anything is done for it, any other when its answer shows that
/// nobody knows who asks. So a user beside a flood of the same address is not told 429.
struct RequestTurn {
    private let conversation: HTTPConversation
    private let connection: ClientConnection
    private var owner: ClientLoop { connection.owner }

    init(of conversation: HTTPConversation, _ connection: ClientConnection) {
        self.conversation = conversation
        self.connection = connection
    }

    func begin(_ request: ParsedRequest) {
        owner.loop.setDeadline(connection, owner.loop.now.advanced(by: owner.settings.timeouts.answer))
        connection.flags.isCounted = owner.hubContext.admission.boundsStrangers && !request.claimsIdentity
        guard connection.flags.isCounted else {
            return respond(to: HTTPRequest(request, from: connection.address))
        }
        guard mayAsk() else { return holdBack() }
        conversation.asked = .stranger(HTTPRequest(request, from: connection.address))
        owner.turns.strangerWaits(connection.sessionID, of: connection.address)
        connection.updateInterest()
    }

    private func respond(to request: HTTPRequest) {
        let exchange = HTTPExchange(
            mailbox: owner.mailbox, connection: connection.sessionID, store: owner.hubContext.store)
        if let response = owner.hubContext.routes.respond(to: request, exchange, channels: owner.directory) {
            conversation.answer(response, connection)
        } else {
            connection.updateInterest()
        }
    }

    /// The turn of its address has come.
    func came() {
        // It may have been told in the meantime that no answer came in time.
        guard case .stranger(let request) = conversation.asked, case .answering = conversation.machine.state else {
            return
        }
        conversation.asked = .request(origin: conversation.origin)
        respond(to: request)
        if case .reading = conversation.machine.state { connection.resume() }
    }

    private func mayAsk() -> Bool {
        owner.hubContext.admission.mayAsk(connection.address, at: owner.loop.now)
    }

    /// Whether the answer may be given now. One that shows that nobody knows who asks counts for the address, if its request
    /// did not.
    func allows(_ response: borrowing HTTPResponse) -> Bool {
        guard response.isForStrangers, !connection.flags.isCounted else { return true }
        connection.flags.isCounted = true
        if mayAsk() { return true }
        holdBack()
        return false
    }

    /// It asks too often: the answer that says so comes after a pause, in which nothing is read.
    func holdBack() {
        conversation.asked = .tooOften(origin: conversation.origin)
        let pause = owner.settings.configuration.admission.strangerPause
        owner.loop.setDeadline(connection, owner.loop.now.advanced(by: pause))
        connection.updateInterest()
    }

    func pauseEnded() {
        conversation.asked = .request(origin: conversation.origin)
        let mayStay = conversation.machine.state != .upgrading
        conversation.answer(conversation.shared(.tooOften, owner), keepsAlive: mayStay, connection)
        if case .reading = conversation.machine.state { connection.resume() }
    }
}

extension HTTPConversation.Asked {
    /// The field `Origin` of the request; nil where there is none.
    var origin: [UInt8]? {
        switch self {
        case .request(let origin), .tooOften(let origin): origin
        case .stranger(let request): request.origin.map { Array($0.utf8) }
        case .events(let pending): pending.origin
        case .upgrade, .turn, .body: nil
        }
    }
}
