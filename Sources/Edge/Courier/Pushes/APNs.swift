import Bytes
import Clock
import Digests
import JSON
import Outbox

/// An account of Apple's push service, authorised by tokens (Apple, "Establishing a token-based connection to APNs").
package struct APNsAccount: Sendable {
    /// The key of the file that Apple gives out once.
    package var key: SigningKey
    /// Its id, ten characters.
    package var keyID: String
    /// The id of the developer team, ten characters.
    package var teamID: String
    /// The service's origin in place of Apple's two, for tests and gateways.
    package var origin: String?

    /// An account with a P-256 key.
    package init(key: SigningKey, keyID: String, teamID: String, origin: String? = nil) {
        (self.key, self.keyID, self.teamID, self.origin) = (key, keyID, teamID, origin)
    }
}

/// Requests to APNs and what its answers mean.
struct APNs: PushProvider {
    let account: APNsAccount
    let requestsMax = PushLimits.requestsOfService
    private var token: (text: String, number: Int, madeAt: Instant)?
    private var lastNumber = 0

    /// Apple refuses a token that is an hour old, and tokens that change more often than once in 20 minutes.
    static let renewAfter = Duration.seconds(40 * 60)
    /// A token refused sooner was not too old: one of the two clocks is wrong.
    static let expiryLeast = Duration.seconds(60)

    init(_ account: APNsAccount) {
        self.account = account
    }

    mutating func credential(now: Instant, time: UnixTime) -> PushCredential {
        if let token, now.duration(since: token.madeAt) < Self.renewAfter {
            return .use(token.text, number: token.number)
        }
        var header = ByteWriter(capacity: 64)
        var claims = ByteWriter(capacity: 64)
        header.append(texts: [("alg", account.key.algorithm.rawValue), ("kid", account.keyID)])
        claims.append("{\"iss\":")
        claims.append(jsonString: account.teamID)
        claims.append(",\"iat\":")
        claims.append(decimal: time.microseconds / 1_000_000)
        claims.append(UInt8(ascii: "}"))
        guard let text = account.key.token(header: header.array, claims: claims.array) else {
            return .wait(until: now.advanced(by: .seconds(1)))
        }
        lastNumber += 1
        token = (text, lastNumber, now)
        return .use(text, number: lastNumber)
    }

    /// Of many pushes that were refused with one token, the first renews it; the others are sent with the new one.
    mutating func expired(number: Int, now: Instant) -> Bool {
        guard let token, token.number == number else { return true }
        // The first one may be refused sooner: the clock was set since.
        guard number == 1 || now.duration(since: token.madeAt) >= Self.expiryLeast else { return false }
        self.token = nil
        return true
    }

    func request(_ push: DuePush, _ credential: String, now: Instant, time: UnixTime) -> PushRequest? {
        guard Self.isToken(push.token) else { return nil }
        let origin = account.origin ?? (push.isSandbox ? Self.sandbox : Self.production)
        var fields = [
            "authorization: bearer \(credential)", "apns-push-type: alert", "apns-priority: 10",
            "apns-expiration: \(max(0, push.expiresAt.microseconds / 1_000_000))",
            "apns-collapse-id: \(PushText.collapseID(push))", "content-type: application/json",
        ]
        if let topic = push.topic, Self.isFieldValue(topic) { fields.append("apns-topic: \(topic)") }
        return PushRequest(
            url: "\(origin)/3/device/\(push.token)", fields: fields, body: Self.body(of: push), isHTTP2Only: true)
    }

    private static let production = "https://api.push.apple.com"
    private static let sandbox = "https://api.sandbox.push.apple.com"

    /// Hexadecimal digits; Apple says that their number may change.
    static func isToken(_ text: String) -> Bool {
        (1...200).contains(text.utf8.count) && text.utf8.allSatisfy { $0.hexValue != nil }
    }

    private static func isFieldValue(_ text: String) -> Bool {
        (1...200).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    private static func body(of push: DuePush) -> [UInt8] {
        var writer = ByteWriter(capacity: 512)
        writer.append("{\"aps\":{\"alert\":")
        writer.append(texts: [("title", PushText.title(push)), ("body", PushText.body(push))])
        writer.append(",\"sound\":\"default\"},\"carillon\":")
        writer.append(texts: PushText.data(push))
        writer.append(UInt8(ascii: "}"))
        return writer.array
    }

    // MARK: Answers

    /// The reasons that Apple lists ("Handling notification responses from APNs"), and what each means.
    enum Reason: String, CaseIterable {
        case badCollapseId = "BadCollapseId"
        case badDeviceToken = "BadDeviceToken"
        case badExpirationDate = "BadExpirationDate"
        case badMessageId = "BadMessageId"
        case badPriority = "BadPriority"
        case badTopic = "BadTopic"
        case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
        case duplicateHeaders = "DuplicateHeaders"
        case idleTimeout = "IdleTimeout"
        case invalidPushType = "InvalidPushType"
        case missingDeviceToken = "MissingDeviceToken"
        case missingTopic = "MissingTopic"
        case payloadEmpty = "PayloadEmpty"
        case topicDisallowed = "TopicDisallowed"
        case badCertificate = "BadCertificate"
        case badCertificateEnvironment = "BadCertificateEnvironment"
        case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
        case expiredProviderToken = "ExpiredProviderToken"
        case forbidden = "Forbidden"
        case invalidProviderToken = "InvalidProviderToken"
        case missingProviderToken = "MissingProviderToken"
        case badPath = "BadPath"
        case methodNotAllowed = "MethodNotAllowed"
        case expiredToken = "ExpiredToken"
        case unregistered = "Unregistered"
        case payloadTooLarge = "PayloadTooLarge"
        case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
        case tooManyRequests = "TooManyRequests"
        case internalServerError = "InternalServerError"
        case serviceUnavailable = "ServiceUnavailable"
        case shutdown = "Shutdown"

        enum Meaning: Equatable { case retry, dead, drop, renew, refused }

        var meaning: Meaning {
            switch self {
            case .badDeviceToken, .deviceTokenNotForTopic, .expiredToken, .unregistered: .drop
            case .expiredProviderToken: .renew
            case .idleTimeout, .tooManyRequests, .internalServerError, .serviceUnavailable, .shutdown: .retry
            case .badCertificate, .badCertificateEnvironment, .badEnvironmentKeyInToken, .forbidden,
                .invalidProviderToken, .missingProviderToken, .tooManyProviderTokenUpdates, .topicDisallowed, .badPath,
                .methodNotAllowed:
                .refused
            case .badCollapseId, .badExpirationDate, .badMessageId, .badPriority, .badTopic, .duplicateHeaders,
                .invalidPushType, .missingDeviceToken, .missingTopic, .payloadEmpty, .payloadTooLarge:
                .dead
            }
        }
    }

    func verdict(_ answer: PushAnswer) -> PushVerdict {
        if answer.status == 200 { return .sent }
        let told = answer.json
        guard let reason = told?["reason"]?.string.flatMap(Reason.init(rawValue:)) else {
            // 410 without a time tells of no token in particular.
            return answer.status == 410 ? .dead("4xx") : verdictOfStatus(answer)
        }
        switch reason.meaning {
        case .retry: return .retry(reason.rawValue, after: answer.retryAfter)
        case .dead: return .dead(reason.rawValue)
        case .renew: return .renew
        case .refused: return .refused(reason.rawValue)
        case .drop:
            guard answer.status == 410 else { return .drop(reason.rawValue) }
            guard let time = told?["timestamp"]?.integer else { return .dead(reason.rawValue) }
            return .drop(reason.rawValue, before: time)
        }
    }
}
