import Bytes
import Gateway
import HTTP
import Identity
import Store

/// `GET /users/{userId}/adherence/today`, `…/month`, `…/occurrence/{id}` (seed 000 §4) and `GET /users/{userId}/reminders`
/// (seed 001 §4): what a device fetches when events cannot tell it everything.
///
/// `X-Sync-Position: {epoch}:{offset}` is where the stream stood in the same database snapshot (of the reminders theirs,
/// else that of the adherence): events up to it are in the body, those above it follow. An epoch has no colon.
package struct SnapshotRoutes: Sendable {
    private static let day = SnapshotFunction("day", "sync.adherence_day", "date")
    private static let month = SnapshotFunction("month", "sync.adherence_month", "date")
    private static let occurrence = SnapshotFunction("occurrence", "sync.adherence_occurrence", "text")
    private static let reminders = SnapshotFunction("reminders", "sync.reminders")
    /// What metrics call the snapshots.
    package static let names = [day, month, occurrence, reminders].map(\.name)

    private let bearer: BearerUser

    package init(verifier: TokenVerifier) {
        bearer = BearerUser(verifier: verifier)
    }

    /// What a path names.
    enum Target: Sendable, Equatable {
        case today, month, occurrence(String), reminders

        /// Nil where the path is none of these routes'.
        init?(_ path: UserPath) {
            var rest = path.rest
            let target: Target? = rest.withUTF8 { bytes in
                let rest = UnsafeRawBufferPointer(bytes)
                if rest.equals("/adherence/today") { return .today }
                if rest.equals("/adherence/month") { return .month }
                if rest.equals("/reminders") { return .reminders }
                guard rest.hasPrefix(Self.occurrencePrefix) else { return nil }
                let id = rest.part(Self.occurrencePrefix.utf8CodeUnitCount..<rest.count)
                guard id.count > 0, id.firstIndex(of: UInt8(ascii: "/"), from: 0) == nil else { return nil }
                return Percent.decodeString(id).map { .occurrence($0) }
            }
            guard let target else { return nil }
            self = target
        }

        private static let occurrencePrefix: StaticString = "/adherence/occurrence/"
    }

    /// Answers at once where the request itself is wrong, and else by `answer`.
    func respond(
        to request: HTTPRequest, _ target: Target, of user: String, _ exchange: HTTPExchange,
        _ answer: @escaping @Sendable (HTTPResponse) -> Void
    ) -> HTTPResponse? {
        guard let token = request.bearerToken else { return BearerUser.missing }
        bearer.verify(token, refuse: answer) { bearer in
            guard bearer.hasSameBytes(as: user) else {
                return answer(.problem(.forbidden, "The path names another user than the token."))
            }
            do throws(QueryProblem) {
                let (function, arguments) = try Self.question(target, request.query)
                exchange.query(function, arguments, of: user) { answer(.snapshot($0, unless: request.ifNoneMatch)) }
            } catch {
                answer(.problem(.badRequest, error.message))
            }
        }
        return nil
    }

    private struct QueryProblem: Error {
        let message: StaticString
    }

    private static func question(
        _ target: Target, _ query: [UInt8]
    ) throws(QueryProblem) -> (SnapshotFunction, [String?]) {
        switch target {
        case .occurrence(let id): return (occurrence, [id])
        case .reminders: return (reminders, [])
        case .today:
            guard let text = parameter("date", query) else { return (day, [nil]) }
            guard let date = CalendarDay(text) else {
                throw QueryProblem(message: "date must be a day of the calendar such as 2025-11-14.")
            }
            return (day, [date.description])
        case .month:
            let firstDay =
                if let month = parameter("month", query), month.utf8.count > 2 {
                    CalendarDay("\(month)-01")
                } else {
                    CalendarDay(year: parameter("year", query) ?? "", month: parameter("month", query) ?? "")
                }
            guard let firstDay else {
                throw QueryProblem(message: "Name a month, such as month=2025-11, or year=2025&month=11.")
            }
            return (month, [firstDay.description])
        }
    }

    /// A value of the query; empty where it cannot be read.
    private static func parameter(_ name: StaticString, _ query: [UInt8]) -> String? {
        query.withUnsafeBytes { query in
            guard let raw = FormReader.rawValue(name, in: query) else { return nil }
            return Percent.decodeString(raw, plusIsSpace: true) ?? ""
        }
    }
}

extension HTTPResponse {
    /// The answer to a question for a snapshot; `field` is the request's `If-None-Match`. A position travels on 304 too: the
    /// body is the same, and true up to there.
    fileprivate static func snapshot(_ answer: SnapshotAnswer, unless field: [UInt8]?) -> HTTPResponse {
        switch answer {
        case .found(let snapshot):
            let tag = EntityTag(of: snapshot.body)
            let isKnown = field.map { tag.isNamed(by: $0) } ?? false
            return (isKnown ? HTTPResponse(.notModified) : HTTPResponse(.ok, body: snapshot.body))
                .with("X-Sync-Position", "\(snapshot.epoch):\(snapshot.offset)")
                .with("ETag", tag.text)
                .with("Cache-Control", "private, no-cache")
                .with("Vary", "Origin, Authorization")
        case .missing:
            return .problem(.notFound, "The user has no such dose.").with("Cache-Control", "no-store")
        case .tooLarge:
            return .problem(.internalServerError, "This is more than the hub hands out in one piece.")
        case .unavailable(let wait):
            return HTTPResponse.problem(.serviceUnavailable, "The database cannot be read at the moment.")
                .retrying(after: wait)
        }
    }
}
