import Clock
import Digests
import JSON
import Outbox
import Testing

@testable import Courier

/// Requests to providers, and tables of what their answers mean.
@Suite struct PushProviderTests {
    private let time = UnixTime(seconds: 1_763_625_600)

    private func push(_ platform: PushPlatform = .apns, token: String = "00aaFF", title: String = "Reminder") -> DuePush
    {
        var push = DuePush(id: 7, attempt: 1, platform: platform, token: token, leaseEnd: .second(30))
        (push.userID, push.deviceID, push.topic) = ("ada=1", "phone", "org.example.app")
        (push.occurrenceID, push.ruleID) = ("0d4c1f5e-0000-5000-8000-000000000001", "rule-1")
        push.text = DuePush.Text(title: title, body: "It is time for your reminder.")
        push.start = time
        push.expiresAt = time.advanced(by: .seconds(3_600))
        push.useEnd = .second(3_600)
        push.position = DuePush.Position(epoch: "e.1", offset: 42)
        push.readAt = 5_000_000
        return push
    }

    private func apns(origin: String? = nil) throws -> APNs {
        let key = try #require(SigningKey(pem: ProviderKeys.p256))
        return APNs(APNsAccount(key: key, keyID: "KEY1234567", teamID: "TEAM123456", origin: origin))
    }

    private func fcm(_ members: String = "") throws -> FCM {
        let file = """
            {"type": "service_account", "project_id": "project-1", "private_key_id": "k1", "client_email": "a@b",\(members)
            "token_uri": "https://oauth.example.org/token",
            "private_key": "\(ProviderKeys.rsa.split(separator: "\n").joined(separator: "\\n"))"}
            """
        return FCM(try FCMAccount(file: file))
    }

    private func answer(_ status: Int, _ body: String = "", retryAfter: Int? = nil) -> PushAnswer {
        PushAnswer(status: status, retryAfter: retryAfter, body: Array(body.utf8))
    }

    // MARK: APNs

    @Test func requestToAPNs() throws {
        let apns = try apns()
        let request = try #require(apns.request(push(), "TOKEN", now: .second(0), time: time))
        #expect(request.url == "https://api.push.apple.com/3/device/00aaFF" && request.isHTTP2Only)
        #expect(
            request.fields == [
                "authorization: bearer TOKEN", "apns-push-type: alert", "apns-priority: 10",
                "apns-expiration: 1763629200", "apns-collapse-id: 0d4c1f5e-0000-5000-8000-000000000001",
                "content-type: application/json", "apns-topic: org.example.app",
            ])
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"aps":{"alert":{"title":"Reminder","body":"It is time for your reminder."},"sound":"default"},"#
                + #""carillon":{"kind":"reminder","channel":"private-user.ada=3D1.reminders","epoch":"e.1","offset":"42","#
                + #""start":"2025-11-20T08:00:00Z","occurrenceId":"0d4c1f5e-0000-5000-8000-000000000001","ruleId":"rule-1"}}"#
        )
        var sandbox = push()
        sandbox.isSandbox = true
        #expect(
            apns.request(sandbox, "", now: .second(0), time: time)?.url.hasPrefix(
                "https://api.sandbox.push.apple.com/3/")
                == true)
        let elsewhere = try self.apns(origin: "http://127.0.0.1:9")
        #expect(
            elsewhere.request(sandbox, "", now: .second(0), time: time)?.url == "http://127.0.0.1:9/3/device/00aaFF")
    }

    /// A token is part of the URL, and comes from a device.
    @Test(arguments: ["", "xyz", "00/../11", "00?x", "00 ", String(repeating: "0", count: 201)])
    func noRequestOfAnotherToken(_ token: String) throws {
        #expect(try apns().request(push(token: token), "", now: .second(0), time: time) == nil)
    }

    @Test func headersHoldNoLineOfADevice() throws {
        var odd = push()
        odd.topic = "a\r\nx: y"
        odd.occurrenceID = "b\nz"
        let request = try #require(try apns().request(odd, "", now: .second(0), time: time))
        #expect(request.fields.allSatisfy { !$0.contains("\n") && !$0.contains("\r") })
        #expect(request.fields.contains("apns-collapse-id: push-7"))
        #expect(!request.fields.contains { $0.hasPrefix("apns-topic") })
    }

    /// 4 KiB are all that APNs and FCM take.
    @Test func longTextsAreCut() throws {
        let long = push(title: String(repeating: "ü\"", count: 5_000))
        #expect(try #require(try apns().request(long, "", now: .second(0), time: time)).body.count < 4_096)
    }

    /// One of them is a character of many bytes: a family, and a letter with hundreds of marks.
    @Test(arguments: [
        String(repeating: "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}", count: 1_000),
        "e" + String(repeating: "\u{301}", count: 5_000), String(repeating: "\"\\", count: 1_000),
        String(repeating: "\u{1}", count: 1_000), String(repeating: "\u{4E00}", count: 1_000),
    ])
    func longTextsAreCutInBytesToo(_ text: String) throws {
        var push = push(title: text)
        push.text.body = text
        push.userID = String(repeating: "=", count: 128)
        push.occurrenceID = String(repeating: "\"", count: 200)
        push.ruleID = push.occurrenceID
        for request in [
            try apns().request(push, "", now: .second(0), time: time),
            try fcm().request(push, "", now: .second(0), time: time),
        ] {
            #expect(try #require(request).body.count <= 4_096)
        }
        #expect(!PushText.title(push).isEmpty && text.unicodeScalars.starts(with: PushText.title(push).unicodeScalars))
        #expect(PushText.body(push).count >= min(48, text.count))
    }

    @Test(arguments: APNs.Reason.allCases)
    func reasonsOfAPNs(_ reason: APNs.Reason) throws {
        let body = "{\"reason\":\"\(reason.rawValue)\",\"timestamp\":1763625000123}"
        let verdict = try apns().verdict(answer(400, body, retryAfter: 9))
        switch reason {
        case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken:
            #expect(verdict == .drop(reason.rawValue))
            // A token that was registered after that time is another life of the app.
            #expect(try apns().verdict(answer(410, body)) == .drop(reason.rawValue, before: 1_763_625_000_123))
        case .expiredProviderToken: #expect(verdict == .renew)
        case .tooManyRequests, .internalServerError, .serviceUnavailable, .shutdown, .idleTimeout:
            #expect(verdict == .retry(reason.rawValue, after: 9))
        case .invalidProviderToken, .missingProviderToken, .forbidden, .badCertificate, .badCertificateEnvironment,
            .badEnvironmentKeyInToken, .tooManyProviderTokenUpdates, .topicDisallowed, .badPath, .methodNotAllowed:
            #expect(verdict == .refused(reason.rawValue))
        case .badCollapseId, .badExpirationDate, .badMessageId, .badPriority, .badTopic, .duplicateHeaders,
            .invalidPushType, .missingDeviceToken, .missingTopic, .payloadEmpty, .payloadTooLarge:
            #expect(verdict == .dead(reason.rawValue))
        }
    }

    @Test(arguments: [
        (200, "", PushVerdict.sent), (400, "", .dead("4xx")), (403, "{}", .refused("4xx")),
        (410, "{\"reason\":\"Unregistered\"}", .dead("Unregistered")), (410, "gone", .dead("4xx")),
        (429, "", .retry("4xx")), (500, "<html>", .retry("5xx")), (503, "{\"reason\":\"New\"}", .retry("5xx")),
        (302, "", .refused("3xx")), (404, "", .refused("4xx")),
    ])
    func answersWithoutAReason(_ status: Int, _ body: String, _ verdict: PushVerdict) throws {
        #expect(try apns().verdict(answer(status, body)) == verdict)
    }

    @Test func theTokenOfAPNsIsRenewedInTime() throws {
        var apns = try apns()
        let first = apns.credential(now: .second(0), time: time)
        expect(apns.credential(now: .second(20 * 60 + 1), time: time) == first)
        let second = apns.credential(now: .second(59 * 60), time: time)
        guard case .use(let one, number: 1) = first, case .use(let two, number: 2) = second else {
            Issue.record("no tokens")
            return
        }
        #expect(one != two)
    }

    @Test func aNewTokenIsNotRenewedAgain() throws {
        var apns = try apns()
        _ = apns.credential(now: .second(0), time: time)
        expect(apns.expired(number: 1, now: .second(1)))
        guard case .use(_, number: 2) = apns.credential(now: .second(1), time: time) else {
            Issue.record("it is not renewed at once")
            return
        }
        // Others that were sent with the first one get the second.
        expect(apns.expired(number: 1, now: .second(1)))
        expect(!apns.expired(number: 2, now: .second(2)))
        expect(apns.expired(number: 2, now: .second(90)))
    }

    // MARK: FCM

    @Test func requestToFCM() throws {
        let request = try #require(
            try fcm().request(push(.fcm, token: "a:b_\"c"), "TOKEN", now: .second(0), time: time))
        #expect(request.url == "https://fcm.googleapis.com/v1/projects/project-1/messages:send")
        #expect(request.fields == ["authorization: Bearer TOKEN", "content-type: application/json"])
        let message = try #require(try JSONTree(String(decoding: request.body, as: UTF8.self))["message"])
        #expect(message["token"]?.string == "a:b_\"c")
        #expect(message["android"]?["notification"]?["tag"]?.string == "0d4c1f5e-0000-5000-8000-000000000001")
        #expect(message["android"]?["priority"]?.string == "HIGH" && message["android"]?["ttl"]?.string == "3600s")
        #expect(message["notification"]?["title"]?.string == "Reminder")
        #expect(message["data"]?["offset"]?.string == "42" && message["data"]?["epoch"]?.string == "e.1")
        #expect(message["data"]?["channel"]?.string == "private-user.ada=3D1.reminders")
    }

    @Test(arguments: FCM.Code.allCases)
    func codesOfFCM(_ code: FCM.Code) throws {
        let body = """
            {"error": {"code": 400, "message": "secret", "status": "ANY", "details": [{"@type": "other"},
            {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "\(code.rawValue)"}]}}
            """
        let verdict = try fcm().verdict(answer(400, body, retryAfter: 7))
        switch code {
        case .unregistered, .senderIDMismatch: #expect(verdict == .drop(code.rawValue))
        case .invalidArgument: #expect(verdict == .dead(code.rawValue))
        case .thirdPartyAuthError: #expect(verdict == .refused(code.rawValue))
        case .quotaExceeded:
            #expect(verdict == .retry(code.rawValue, after: 7))
            #expect(try fcm().verdict(answer(429, body)) == .retry(code.rawValue, after: 60))
        case .unavailable, .internalError, .unspecified: #expect(verdict == .retry(code.rawValue, after: 7))
        }
    }

    @Test(arguments: [
        (200, "{}", PushVerdict.sent), (401, "{}", .renew), (404, "not found", .refused("4xx")),
        (404, "{\"error\":{\"status\":\"NOT_FOUND\"}}", .refused("4xx")),
        (400, "{\"error\":{\"status\":\"INVALID_ARGUMENT\"}}", .dead("INVALID_ARGUMENT")),
        (403, "{\"error\":{\"status\":\"PERMISSION_DENIED\"}}", .refused("4xx")), (502, "", .retry("5xx")),
        (429, "{\"error\":{\"status\":\"RESOURCE_EXHAUSTED\"}}", .retry("QUOTA_EXCEEDED", after: 60)),
    ])
    func answersWithoutACode(_ status: Int, _ body: String, _ verdict: PushVerdict) throws {
        #expect(try fcm().verdict(answer(status, body)) == verdict)
    }

    @Test func accessTokensAreKeptUntilAMinuteBeforeTheirEnd() throws {
        var fcm = try fcm()
        expect(fcm.credential(now: .second(0), time: time) == .ask)
        let request = try #require(fcm.credentialRequest(time: time))
        #expect(request.url == "https://oauth.example.org/token")
        #expect(
            String(decoding: request.body, as: UTF8.self).hasPrefix(
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=ey"))
        let told = answer(200, #"{"access_token": "ya29", "expires_in": 3599, "token_type": "Bearer"}"#)
        expect(fcm.credentialCame(.answered(told), now: .second(0)) == nil)
        expect(fcm.credential(now: .second(3_538), time: time) == .use("ya29", number: 1))
        expect(fcm.credential(now: .second(3_539), time: time) == .ask)
    }

    @Test func accessTokensAreAskedForWithGrowingPauses() throws {
        var fcm = try fcm()
        expect(fcm.credentialCame(.failed(.connect), now: .second(0)) == "connect")
        expect(fcm.credential(now: .second(0), time: time) == .wait(until: .second(1)))
        expect(fcm.credentialCame(.answered(answer(400, "{\"error\":\"invalid_grant\"}")), now: .second(1)) == "oauth")
        expect(fcm.credential(now: .second(2), time: time) == .wait(until: .second(3)))
        expect(fcm.credentialCame(.answered(answer(503, retryAfter: 30)), now: .second(3)) == "oauth")
        expect(fcm.credential(now: .second(32), time: time) == .wait(until: .second(33)))
        expect(fcm.credential(now: .second(33), time: time) == .ask)
    }

    @Test func anAccountNamesItsCloud() throws {
        let other = try fcm(#""universe_domain": "cloud.example.org:8443","#)
        let request = try #require(other.request(push(.fcm, token: "a"), "TOKEN", now: .second(0), time: time))
        #expect(request.url == "https://fcm.cloud.example.org:8443/v1/projects/project-1/messages:send")
        for bad in ["", " ", "a/b", "a@b", "a?b"] {
            #expect(throws: CourierError.self, "\(bad)") { try fcm(#""universe_domain": "\#(bad)","#) }
        }
    }

    @Test(arguments: [
        "", "{}", "[]", #"{"type": "authorized_user"}"#, #"{"type": "service_account", "project_id": "p"}"#,
    ])
    func otherFilesAreNoServiceAccounts(_ text: String) {
        #expect(throws: CourierError.self) { try FCMAccount(file: text) }
    }

    // MARK: The webhook

    @Test func requestToTheWebhook() throws {
        let webhook = PushWebhook(url: "https://sms.example.org/", credentials: signer)
        let request = try #require(webhook.request(push(.webhook, token: "+49 1"), "", now: .second(0), time: time))
        let code = request.body.withUnsafeBytes { signer.code(ofWebhook: $0) }
        #expect(request.fields.contains("X-Pusher-Signature: \(code)") && request.fields.contains("X-Pusher-Key: key"))
        let tree = try JSONTree(String(decoding: request.body, as: UTF8.self))
        guard case .array(let events)? = tree["events"], let event = events.first else {
            Issue.record("no events")
            return
        }
        #expect(tree["time_ms"]?.integer == 1_763_625_600_000 && event["name"]?.string == "push")
        #expect(event["token"]?.string == "+49 1" && event["user_id"]?.string == "ada=1")
        #expect(event["expiresAt"]?.string == "2025-11-20T09:00:00Z")
    }

    @Test(arguments: [
        (204, PushVerdict.sent), (410, .drop("4xx")), (422, .dead("4xx")), (404, .refused("4xx")),
        (301, .refused("3xx")),
        (500, .retry("5xx")),
    ])
    func answersOfTheWebhook(_ status: Int, _ verdict: PushVerdict) {
        #expect(PushWebhook(url: "", credentials: signer).verdict(answer(status)) == verdict)
    }

    // MARK: When to try again

    @Test(
        arguments: [
            ("0", 0), ("120", 120), ("99999999999999999999", 3_600), ("Thu, 20 Nov 2025 08:00:30 GMT", 30),
            ("Thu, 20 Nov 2025 07:00:00 GMT", 0), ("Fri, 20 Nov 2026 08:00:00 GMT", 3_600), ("", nil), ("soon", nil),
            ("-1", nil), ("Thu, 20 Nov 2025 08:00:30", nil), ("1.5", nil),
        ] as [(String, Int?)])
    func retryAfterIsSecondsOrADate(_ text: String, _ seconds: Int?) {
        #expect(RetryAfter.seconds(text, at: time) == seconds)
    }

    @Test func pausesGrowToAMinute() {
        var random: any RandomNumberGenerator = SystemRandomNumberGenerator()
        for (attempt, range) in [(1, 1...1), (2, 1...2), (3, 2...4), (7, 30...60), (500, 30...60), (-3, 1...1)] {
            expect(range.contains(PushBackoff.seconds(attempt: attempt, after: nil, random: &random)))
        }
        expect((300...330).contains(PushBackoff.seconds(attempt: 1, after: 300, random: &random)))
        expect(PushBackoff.seconds(attempt: 9, after: 0, random: &random) == 1)
    }
}
