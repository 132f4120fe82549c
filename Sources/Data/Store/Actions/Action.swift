import Bytes
import Clock
import Postgres
import Reactor
import Sync

/// An action, from `submit` to its answer. Holds its payload once, as parameters into which the texts were copied.
final class Action: Request {
    /// Executes the action; `parameters(of:)` has the order of its parameters.
    static let apply = PreparedStatement(call("sync.apply"))
    /// Executes an action that the app's backend sends.
    private static let applyByApp = PreparedStatement(call("sync.apply_by_app"))
    /// Stores, under the action's key and number, that the database refuses it.
    private static let refuse = PreparedStatement(call("sync.refuse"))

    private unowned let store: StoreLoop
    let key: String
    /// The user and the key: identifies the action across submissions.
    let name: TextKey
    /// The user's device, if the action names one.
    let device: TextKey?
    /// Executions that lost a race, or met an outdated plan or a read-only server.
    var races = 0
    /// Executions that violated a constraint.
    var violations = 0
    private let chain: ActionChain?
    private var isAnswered = false
    private let answer: @Sendable (ActionAnswer) -> Void

    /// Nil if a text holds a NUL byte, which PostgreSQL's text cannot hold.
    init?(_ request: ActionRequest, kind: Int, deadline: Instant, _ store: StoreLoop) {
        let envelope = request.envelope
        guard let parameters = Self.parameters(of: request.user, envelope) else { return nil }
        self.store = store
        key = envelope.key
        name = TextKey(request.user, envelope.key)
        device = envelope.deviceID.map { TextKey(request.user, $0) }
        chain = request.chain
        answer = request.answer
        super.init(
            Terms(
                kind: kind, of: TextKey(request.user), request.isByApp ? Self.applyByApp : Self.apply, parameters,
                deadline: deadline))
    }

    /// Whether a refusal is stored instead of the action.
    var isRefused: Bool { statement === Self.refuse }

    /// Those that users send; what is refused, or sent by the app, goes by itself.
    override var isJoinable: Bool { statement === Self.apply }

    /// False if one before it in its chain is to be sent again. Asked again while it waits behind that one.
    override func willBeSent() -> Bool {
        guard let answer = chain?.answer(to: key) else { return true }
        finish(answer)
        return false
    }

    override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep { store.answered(self, answer) }

    /// The answer to a batch in which it is.
    func answered(_ answer: Result<Rows, PostgresError>, in batch: ActionTransaction) -> NextStep {
        store.answered(batch, answer)
    }

    override func ended(_ end: RequestFailure) { finish(store.answer(to: self, after: end)) }

    /// Answers, unless it was answered before.
    func finish(_ answer: ActionAnswer) {
        guard !isOver, !isAnswered else { return }
        isAnswered = true
        self.answer(answer)
    }

    /// The database refuses the action: the next execution stores that, so that the device's numbers go on.
    func beRefused() {
        statement = Self.refuse
        races = 0
    }

    private static func call(_ function: String) -> String {
        """
        SELECT * FROM \(function)($1::text, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::text, \
        $8::text, $9::text)
        """
    }

    private static func parameters(of user: String, _ envelope: ActionEnvelope) -> CStringList? {
        var list = CStringList()
        func append(_ text: String?) -> Bool {
            guard let text else {
                list.appendNull()
                return true
            }
            return list.append(text)
        }
        func append(json: [UInt8]?) -> Bool {
            guard let json else {
                list.appendNull()
                return true
            }
            return json.withUnsafeBytes { list.append($0) }
        }
        guard append(user), append(envelope.key), append(envelope.deviceID),
            append(envelope.number.map { String($0) }), append(envelope.type), append(json: envelope.payload),
            append(json: envelope.base), append(json: envelope.clientTime), append(envelope.timeZone)
        else { return nil }
        return list
    }
}
