import Bytes
import Clock
import Outbox
import Pusher

/// Pushes to a backend of the operator's own, signed as webhooks are: for text messages, and anything else.
struct PushWebhook: PushProvider {
    let url: String
    var credentials: AppCredentials
    var requestsMax = PushLimits.requestsOfWebhook

    mutating func credential(now: Instant, time: UnixTime) -> PushCredential { .use("", number: 0) }

    func request(_ push: DuePush, _ credential: String, now: Instant, time: UnixTime) -> PushRequest? {
        var writer = ByteWriter(capacity: 1_024)
        writer.append("{\"time_ms\":")
        writer.append(decimal: max(0, time.microseconds / 1_000))
        writer.append(",\"events\":[{\"name\":\"push\"")
        for (name, value) in PushText.data(push) { writer.append(member: name, value) }
        writer.append(member: "user_id", push.userID)
        writer.append(member: "deviceId", push.deviceID)
        writer.append(member: "token", push.token)
        writer.append(member: "title", PushText.title(push))
        writer.append(member: "body", PushText.body(push))
        writer.append(member: "collapseId", PushText.collapseID(push))
        writer.append(member: "expiresAt", PushText.text(of: push.expiresAt))
        writer.append("}]}")
        let body = writer.array
        return PushRequest(
            url: url,
            fields: [
                "Content-Type: application/json", "X-Pusher-Key: \(credentials.key)",
                "X-Pusher-Signature: \(body.withUnsafeBytes { credentials.code(ofWebhook: $0) })",
            ], body: body, sharesConnection: false)
    }

    /// 410: the backend knows that the token is of no use. What else refuses may be mended until the push expires.
    func verdict(_ answer: PushAnswer) -> PushVerdict {
        answer.status == 410 ? .drop("4xx") : verdictOfStatus(answer)
    }
}
