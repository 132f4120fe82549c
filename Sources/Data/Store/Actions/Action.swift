import Bytes
import Clock
import Postgres
import Reactor
import Sync

/// An action on its way, from `submit` to its answer.
///
/// The payload is held once: as the parameters, in which the envelope's texts were copied.
final class Action: Request {
    /// Carries the action out; its parameters in the order in which `parameters(of:)` puts them.
    static let apply = PreparedStatement(call("sync.apply"))
    /// Stores, under the same key and number, that the database refuses the action.
    private static let refuse = PreparedStatement(call("sync.refuse"))

    private unowned let store: StoreLoop
    let key: String
    /// The user and the key: what is remembered of the action from one submission to the next.
    let name: TextKey
    /// The user's device, where it names one.
    let device: TextKey?
    /// Executions that lost a race, or met an outdated plan.
    var races = 0
    /// Executions that violated a constraint.
    var violations = 0
    private let answer: @Sendable (ActionAnswer) -> Void

    /// `nil` where a text holds a NUL, which PostgreSQL's cannot.
    init?(_ request: ActionRequest, kind: Int, deadline: Instant, _ store: StoreLoop) {
        let envelope = request.envelope
        guard let parameters = Self.parameters(of: request.user, envelope) else { return nil }
        self.store = store
        key = envelope.key
        name = TextKey(request.user, envelope.key)
        device = envelope.deviceID.map { TextKey(request.user, $0) }
        answer = request.answer
        super.init(kind: kind, of: TextKey(request.user), Self.apply, parameters, deadline: deadline)
    }

    /// Whether a refusal is to be stored of it.
    var isRefused: Bool { statement === Self.refuse }

    override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep { store.answered(self, answer) }

    override func ended(_ end: RequestEnd) { finish(store.answer(to: self, after: end)) }

    /// Answers, unless it is answered.
    func finish(_ answer: ActionAnswer) {
        if !isOver { self.answer(answer) }
    }

    /// The database will not have it: what is executed next stores that, so that the device's numbers go on.
    func beRefused() {
        statement = Self.refuse
        races = 0
    }

    private static func call(_ function: String) -> String {
        """
        SELECT status, answer FROM \(function)($1::text, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::text, \
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
