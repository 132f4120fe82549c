import Clock
import Postgres

/// Who carries a push to a device. In the order of `sync.claim_pushes`.
package enum PushPlatform: String, CaseIterable, Sendable {
    /// Apple's push notification service.
    case apns
    /// Firebase Cloud Messaging.
    case fcm
    /// A backend of the operator's own: text messages, and anything else.
    case webhook
}

/// A claimed push: what is sent, and where to. Its texts are health data.
package struct DuePush: Sendable, Equatable {
    /// What a person reads.
    package struct Text: Sendable, Equatable {
        /// The first line.
        package var title: String
        /// The line below it.
        package var body: String

        /// The text that tells a stranger who sees the screen nothing.
        package static let neutral = Text(title: "Reminder", body: "It is time for your reminder.")

        /// A text of these two lines.
        package init(title: String, body: String) {
            (self.title, self.body) = (title, body)
        }
    }

    /// How far the device should read of topic `reminders`.
    package struct Position: Sendable, Equatable {
        /// The stream's epoch.
        package var epoch: String
        /// Its last offset.
        package var offset: Int64

        /// A position of a stream.
        package init(epoch: String, offset: Int64) {
            (self.epoch, self.offset) = (epoch, offset)
        }
    }

    /// Its row in the outbox.
    package var id: Int64
    /// How often it was claimed, from 1.
    package var attempt: Int
    /// Nil: one that this version does not know.
    package var platform: PushPlatform?
    /// Whose room it takes.
    var lane: PushPlatform { platform ?? .apns }
    /// What the provider knows the device by.
    package var token: String
    /// For APNs: whether the token is of its sandbox.
    package var isSandbox: Bool
    /// For APNs: the app's bundle id.
    package var topic: String?
    /// Whose device it is.
    package var userID: String
    /// The device, as it named itself.
    package var deviceID: String
    /// What the push reminds of. The device's own notification of it has this id.
    package var occurrenceID: String?
    /// The occurrence's rule.
    package var ruleID: String?
    /// What kind of push it is.
    package var kind: String
    /// What a person reads.
    package var text: Text
    /// When the reminder begins.
    package var start: UnixTime
    /// When it is of no use any more.
    package var expiresAt: UnixTime
    /// How far the device should read.
    package var position: Position
    /// When the token was read, by the database's clock, in microseconds since 1970.
    package var readAt: Int64
    /// Until then no other hub has it.
    package var leaseEnd: Instant
    /// `expiresAt` by this machine's clock, which may go otherwise than the database's.
    package var useEnd = Instant.max

    /// A push for a device.
    package init(id: Int64, attempt: Int, platform: PushPlatform?, token: String, leaseEnd: Instant) {
        (self.id, self.attempt, self.platform, self.token) = (id, attempt, platform, token)
        self.leaseEnd = leaseEnd
        (isSandbox, topic, userID, deviceID) = (false, nil, "", "")
        (occurrenceID, ruleID, kind, text) = (nil, nil, "reminder", Text(title: "", body: ""))
        (start, expiresAt) = (UnixTime(seconds: 0), UnixTime(microseconds: .max))
        (position, readAt) = (Position(epoch: "", offset: 0), 0)
    }
}

extension DuePush {
    /// The push of a row of `OutboxStatement.claim`, which was sent at `claimedAt`; nil if it has another shape.
    init?(_ rows: Rows, _ row: Int, claimedAt: Instant) {
        guard rows.columns == 18, let id = rows.integer(row, 0), let attempt = rows.integer(row, 1),
            let platform = rows.string(row, 2), let token = rows.string(row, 3)
        else { return nil }
        self.init(
            id: id, attempt: Int(attempt), platform: PushPlatform(rawValue: platform), token: token,
            leaseEnd: claimedAt.advanced(by: OutboxLimits.lease))
        isSandbox = rows.string(row, 4) == "sandbox"
        topic = rows.string(row, 5)
        userID = rows.string(row, 6) ?? ""
        deviceID = rows.string(row, 7) ?? ""
        occurrenceID = rows.string(row, 8)
        ruleID = rows.string(row, 9)
        kind = rows.string(row, 10) ?? ""
        text = Text(title: rows.string(row, 11) ?? Text.neutral.title, body: rows.string(row, 12) ?? Text.neutral.body)
        start = UnixTime(microseconds: rows.integer(row, 13) ?? 0)
        expiresAt = UnixTime(microseconds: rows.integer(row, 14) ?? .max)
        position = Position(epoch: rows.string(row, 15) ?? "", offset: rows.integer(row, 16) ?? 0)
        readAt = rows.integer(row, 17) ?? 0
        let use = UnixTime(microseconds: readAt).duration(until: expiresAt)
        // Further than a day, it would not matter, and a sum might overflow.
        useEnd = claimedAt.advanced(by: min(use, .seconds(86_400)))
    }
}

/// What became of a claimed push.
package struct PushOutcome: Sendable, Equatable {
    /// How it is settled.
    package enum Result: String, Sendable, CaseIterable {
        /// The provider has accepted it.
        case sent
        /// It is tried again, unless it has expired by then.
        case retry
        /// It can never be delivered to this device.
        case dead
        /// It is of no use any more.
        case expired
    }

    /// The push's row.
    package let id: Int64
    /// Which claim it was.
    package let attempt: Int
    /// Whose room it takes.
    let lane: PushPlatform
    /// Whose device it was for.
    let userID: String
    /// How it is settled.
    package let result: Result
    /// For `retry`: after how many seconds.
    package let retrySeconds: Int?
    /// The device's token is dropped if it was registered before, in microseconds since 1970.
    package let dropBefore: Int64?

    /// What became of `push`.
    package init(_ push: DuePush, _ result: Result, retrySeconds: Int? = nil, dropBefore: Int64? = nil) {
        (id, attempt, lane, userID) = (push.id, push.attempt, push.lane, push.userID)
        (self.result, self.retrySeconds, self.dropBefore) = (result, retrySeconds, dropBefore)
    }
}
