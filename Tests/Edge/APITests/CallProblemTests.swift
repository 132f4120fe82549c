import HTTP
import Pusher
import Testing

@testable import API

@Suite struct CallProblemTests {
    private func field(_ name: String, _ problem: CallProblem) -> String? {
        problem.response.fields.first { "\($0.name)" == name }?.value
    }

    @Test(
        arguments: [
            (.zero, "1"), (.nanoseconds(1), "1"), (.milliseconds(999), "1"), (.seconds(1), "1"),
            (.seconds(1) + .nanoseconds(1), "2"), (.seconds(59) + .milliseconds(500), "60"), (.seconds(-5), "1"),
        ] as [(Duration, String)])
    func waitsAreRoundedUp(_ wait: Duration, _ seconds: String) {
        #expect(field("Retry-After", .tooFast(wait)) == seconds)
    }

    /// Only a refusal that is worth a retry has a Retry-After.
    @Test(
        arguments: [
            (.tooManyCalls, 503, "60"), (.tooManyKeys, 503, "1"), (.overloaded, 503, "1"), (.listUnderWay, 429, "1"),
            (.unknownApp, 404, nil), (.disabled, 403, nil), (.replay, 401, nil), (.beforeStart, 401, nil),
            (.badKey, 400, nil), (.underWay, 409, "1"), (.otherCall, 422, nil), (.tooManyChannels, 400, nil),
            (.invalid("x"), 400, nil), (.otherMethod(isPost: true), 405, nil),
        ] as [(CallProblem, Int, String?)])
    func statusAndWait(_ problem: CallProblem, _ status: Int, _ wait: String?) {
        #expect(problem.response.status.code == status && field("Retry-After", problem) == wait)
        #expect(String(decoding: problem.response.body, as: UTF8.self).hasSuffix("\",\"code\":\(status)}\n"))
    }

    @Test func methodsAreNamed() {
        #expect(field("Allow", .otherMethod(isPost: true)) == "POST")
        #expect(field("Allow", .otherMethod(isPost: false)) == "GET")
        #expect(field("Allow", .disabled) == nil)
    }

    @Test func messagesAreEscaped() {
        let body = CallProblem.invalid("a \"b\" \\ \n\u{1}ü").response.body
        #expect(String(decoding: body, as: UTF8.self) == #"{"error":"a \"b\" \\ \n\u0001ü","code":400}"# + "\n")
    }

    /// Every signature problem is 401, except a query with too many parameters.
    @Test(arguments: CallRefusal.allCases) func signatures(_ refusal: CallRefusal) {
        let problem = CallProblem(refusal)
        #expect(problem.status == (refusal == .tooManyParameters ? .badRequest : .unauthorized))
        #expect(problem.message == "\(refusal.message)" && problem.response.fields.isEmpty)
        let counted: APIMetrics.Refusal =
            switch refusal {
            case .noTimestamp, .untimely: .timestamp
            case .noBodyDigest, .wrongBodyDigest: .body
            case .tooManyParameters, .repeatedParameter, .wrongKey, .wrongVersion, .noSignature, .wrongSignature:
                .signature
            }
        #expect(problem.refusal == counted)
    }

    @Test func whatIsTooLargeIsNotWrong() {
        let large = CallProblem(PublishError(.largeData(max: 10), index: 2))
        #expect(large.status == .contentTooLarge && large.refusal == .size && large.message.hasPrefix("batch[2]: "))
        let wrong = CallProblem(PublishError(.manyEvents(max: 10)))
        #expect(wrong.status == .badRequest && wrong.refusal == .invalid)
    }

    /// The digest does not depend on the signature, only on what the call asks for.
    @Test func digestsAreOfWhatIsAsked() throws {
        func digest(_ path: String, _ query: String, _ body: String) throws -> CallDigest {
            try Array(path.utf8).withUnsafeBytes { path in
                try Array(body.utf8).withUnsafeBytes { body in
                    let parameters = try Array(query.utf8).withUnsafeBytes { try CallParameters(query: $0) }
                    return CallDigest(path: path, body: body, parameters)
                }
            }
        }
        let first = try digest("/apps/1/events", "a=1&b=2", "{}")
        for query in [
            "b=2&a=1", "A=1&b=2", "a=%31&b=2", "auth_timestamp=7&a=1&auth_signature=x&b=2&body_md5=y&auth_key=k",
            "&a=1&&b=2&",
        ] {
            #expect(try digest("/apps/1/events", query, "{}") == first, "\(query)")
        }
        let others = try [
            first, digest("/apps/1/events", "a=1&b=2", "{} "), digest("/apps/2/events", "a=1&b=2", "{}"),
            digest("/apps/1/events", "a=1", "{}"), digest("/apps/1/events", "a=2&b=1", "{}"),
            digest("/apps/1/events", "a=1&b=2&auth=3", "{}"), digest("/apps/1/events", "", "a=1&b=2"),
            digest("/apps/1/events", "a=1&b=2", ""), digest("/apps/1/eventsa=1&b=2", "", "{}"),
        ]
        #expect(Set(others).count == others.count)
    }
}
