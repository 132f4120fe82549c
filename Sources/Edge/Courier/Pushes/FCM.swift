import Bytes
import Clock
import Digests
import JSON
import Outbox

/// A service account of Firebase, as its JSON file describes it.
package struct FCMAccount: Sendable {
    /// The id of the Firebase project.
    package var project: String
    /// The account's address.
    package var email: String
    /// The key's id; may be empty.
    package var keyID: String
    /// An RSA key.
    package var key: SigningKey
    /// Where access tokens come from.
    package var tokenURL: String
    /// The service's host, and port if it is another than 443: that of Google, or of the cloud that `universe_domain` names.
    package var host: String

    /// Reads the file's text.
    ///
    /// - Throws: a sentence for operators if it is no service account's.
    package init(file text: String) throws(CourierError) {
        guard let tree = try? JSONTree(text), tree["type"]?.string == "service_account" else {
            throw CourierError("is not the JSON of a service account")
        }
        func member(_ name: String) throws(CourierError) -> String {
            guard let value = tree[name]?.string, !value.isEmpty else { throw CourierError("has no \(name)") }
            return value
        }
        project = try member("project_id")
        email = try member("client_email")
        keyID = tree["private_key_id"]?.string ?? ""
        tokenURL = try member("token_uri")
        let domain = tree["universe_domain"]?.string ?? "googleapis.com"
        host = "fcm.\(domain)"
        guard let key = SigningKey(pem: try member("private_key")), key.algorithm == .rs256 else {
            throw CourierError("has a private_key that is no RSA key of 2048 bits or more")
        }
        guard project.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !"/?#%".utf8.contains($0) }),
            !domain.isEmpty, domain.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "-.:".contains($0)) }),
            tokenURL.hasPrefix("https://") || tokenURL.hasPrefix("http://")
        else { throw CourierError("has a project_id, a universe_domain or a token_uri that cannot be used") }
        self.key = key
    }
}

/// Requests to Firebase Cloud Messaging (HTTP v1) and what its answers mean.
struct FCM: PushProvider {
    let account: FCMAccount
    let requestsMax = PushLimits.requestsOfService
    private var token: (text: String, number: Int, end: Instant)?
    private var lastNumber = 0
    private var failures = 0
    private var pauseEnd = Instant.min

    /// A token is used until so long before its end.
    static let margin = Duration.seconds(60)
    /// How long the assertion for one is good for; Google's most.
    private static let assertionSeconds: Int64 = 3_600

    init(_ account: FCMAccount) {
        self.account = account
    }

    // MARK: The access token (RFC 7523, and Google, "Using OAuth 2.0 for Server to Server Applications")

    mutating func credential(now: Instant, time: UnixTime) -> PushCredential {
        if let token, now < token.end { return .use(token.text, number: token.number) }
        return now < pauseEnd ? .wait(until: pauseEnd) : .ask
    }

    mutating func expired(number: Int, now: Instant) -> Bool {
        if token?.number == number { token = nil }
        return true
    }

    func credentialRequest(time: UnixTime) -> PushRequest? {
        var header = ByteWriter(capacity: 64)
        var names: [(name: StaticString, value: String)] = [("alg", account.key.algorithm.rawValue), ("typ", "JWT")]
        if !account.keyID.isEmpty { names.append(("kid", account.keyID)) }
        header.append(texts: names)
        let seconds = time.microseconds / 1_000_000
        var claims = ByteWriter(capacity: 256)
        claims.append("{\"iss\":")
        claims.append(jsonString: account.email)
        claims.append(member: "scope", "https://www.googleapis.com/auth/firebase.messaging")
        claims.append(member: "aud", account.tokenURL)
        claims.append(",\"iat\":")
        claims.append(decimal: seconds)
        claims.append(",\"exp\":")
        claims.append(decimal: seconds + Self.assertionSeconds)
        claims.append(UInt8(ascii: "}"))
        guard let assertion = account.key.token(header: header.array, claims: claims.array) else { return nil }
        let body = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
        return PushRequest(
            url: account.tokenURL, fields: ["content-type: application/x-www-form-urlencoded"], body: Array(body.utf8))
    }

    mutating func credentialCame(_ end: PushEnd, now: Instant) -> String? {
        var (reason, wanted) = ("oauth", nil as Int?)
        switch end {
        case .answered(let answer):
            if answer.status == 200, let told = answer.json, let text = told["access_token"]?.string,
                (1...4_096).contains(text.utf8.count), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            {
                let seconds = min(max(told["expires_in"]?.integer ?? 0, 0), 86_400)
                let use = max(.seconds(seconds) - Self.margin, .seconds(1))
                lastNumber += 1
                token = (text, lastNumber, now.advanced(by: use))
                failures = 0
                return nil
            }
            wanted = answer.retryAfter
        case .failed(let failure): reason = failure.rawValue
        }
        failures += 1
        let pause = wanted ?? min(1 << min(failures - 1, 6), PushBackoff.secondsMax)
        pauseEnd = now.advanced(by: .seconds(max(1, pause)))
        return reason
    }

    // MARK: Messages

    func request(_ push: DuePush, _ credential: String, now: Instant, time: UnixTime) -> PushRequest? {
        guard !push.token.isEmpty else { return nil }
        let seconds = push.useEnd == .max ? 86_400 : push.useEnd.duration(since: now).components.seconds
        var writer = ByteWriter(capacity: 1_024)
        writer.append("{\"message\":{\"token\":")
        writer.append(jsonString: push.token)
        writer.append(",\"notification\":")
        writer.append(texts: [("title", PushText.title(push)), ("body", PushText.body(push))])
        writer.append(",\"android\":{\"priority\":\"HIGH\",\"ttl\":\"")
        writer.append(decimal: min(max(seconds, 0), 86_400))
        writer.append("s\",\"notification\":")
        writer.append(texts: [("tag", PushText.collapseID(push)), ("sound", "default")])
        writer.append("},\"data\":")
        writer.append(texts: PushText.data(push))
        writer.append("}}")
        return PushRequest(
            url: "https://\(account.host)/v1/projects/\(account.project)/messages:send",
            fields: ["authorization: Bearer \(credential)", "content-type: application/json"], body: writer.array)
    }

    // MARK: Answers

    /// The codes that Google lists (FCM, "ErrorCode"), and what each means.
    enum Code: String, CaseIterable {
        case unspecified = "UNSPECIFIED_ERROR"
        case invalidArgument = "INVALID_ARGUMENT"
        case unregistered = "UNREGISTERED"
        case senderIDMismatch = "SENDER_ID_MISMATCH"
        case quotaExceeded = "QUOTA_EXCEEDED"
        case unavailable = "UNAVAILABLE"
        case internalError = "INTERNAL"
        case thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
    }

    /// Without `Retry-After`, Google asks for a minute's pause.
    static let quotaSeconds = 60

    func verdict(_ answer: PushAnswer) -> PushVerdict {
        if answer.status == 200 { return .sent }
        guard let code = Self.code(answer.json) else {
            // Without a code of FCM's, 401 is of the access token, and 404 of the project, not of the device.
            return answer.status == 401 ? .renew : verdictOfStatus(answer)
        }
        switch code {
        case .unregistered, .senderIDMismatch: return .drop(code.rawValue)
        case .invalidArgument: return .dead(code.rawValue)
        case .quotaExceeded: return .retry(code.rawValue, after: answer.retryAfter ?? Self.quotaSeconds)
        case .unavailable, .internalError, .unspecified: return .retry(code.rawValue, after: answer.retryAfter)
        case .thirdPartyAuthError: return .refused(code.rawValue)
        }
    }

    /// FCM's own code: among the details, or, of the last two, the status of the error itself.
    private static func code(_ tree: JSONTree?) -> Code? {
        guard let error = tree?["error"] else { return nil }
        if case .array(let details)? = error["details"] {
            for detail in details {
                guard detail["@type"]?.string == "type.googleapis.com/google.firebase.fcm.v1.FcmError" else { continue }
                if let code = detail["errorCode"]?.string.flatMap(Code.init(rawValue:)) { return code }
            }
        }
        switch error["status"]?.string {
        case "INVALID_ARGUMENT": return .invalidArgument
        case "UNAVAILABLE": return .unavailable
        case "INTERNAL": return .internalError
        case "RESOURCE_EXHAUSTED": return .quotaExceeded
        default: return nil
        }
    }
}
