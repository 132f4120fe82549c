import Postgres
import Reactor
import Sync

/// An action on its way, from `submit` to its answer.
final class Action {
    /// `sync.apply`, its parameters in the order in which `parameters(of:)` puts them.
    static let statement = PreparedStatement(
        """
        SELECT status, answer FROM sync.apply($1::text, $2::text, $3::text, $4::bigint, $5::text, $6::text, $7::text, \
        $8::text, $9::text)
        """)

    /// The user's queue: it stands there, or was taken from there.
    let line: UserLine
    /// When it is answered `retry` at the latest.
    let deadline: Instant
    private(set) var parameters: CStringList
    /// Executions that lost a race, or met an outdated plan.
    var races = 0
    /// Connections that ended while it was under way on them.
    var losses = 0
    /// Whether it has its answer. It may be under way nevertheless.
    private(set) var isAnswered = false
    private var isStripped = false
    private let request: ActionRequest

    /// `nil` where a text holds a NUL, which PostgreSQL's cannot.
    init?(_ request: ActionRequest, line: UserLine, deadline: Instant) {
        guard let parameters = Self.parameters(of: request, isStripped: false) else { return nil }
        self.parameters = parameters
        self.request = request
        self.line = line
        self.deadline = deadline
    }

    var key: String { request.envelope.key }

    /// Answers, unless it is answered.
    func finish(_ answer: ActionAnswer) {
        guard !isAnswered else { return }
        isAnswered = true
        request.answer(answer)
    }

    /// Takes the payload away: the database cannot read it, but it can store a verdict about it, so that the device's
    /// numbers go on. False where that was done before.
    func strip() -> Bool {
        guard !isStripped, let parameters = Self.parameters(of: request, isStripped: true) else { return false }
        isStripped = true
        self.parameters = parameters
        return true
    }

    private static func parameters(of request: ActionRequest, isStripped: Bool) -> CStringList? {
        let envelope = request.envelope
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
        guard append(request.user), append(envelope.key), append(envelope.deviceID),
            append(envelope.number.map { String($0) }), append(envelope.type),
            append(json: isStripped ? nil : envelope.payload),
            append(json: envelope.base), append(json: envelope.clientTime), append(envelope.timeZone)
        else { return nil }
        return list
    }
}
