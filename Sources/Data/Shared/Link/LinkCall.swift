import Clock
import HubEngine
import RESP

/// A call on its way to Redis.
final class LinkCall {
    let number: UInt64
    let hub: HubID
    let kind: Kind
    var command: SharedCommand
    let bucket: Int
    /// Until then it may be sent again.
    let deadline: Instant
    /// Redis may have carried it out: an answer was lost.
    var mayBeDone = false
    /// What its caller is told without an answer.
    var fault: StateFault { mayBeDone ? .unknown : .notDone }
    /// The members that are read behind its answer.
    var pages: MemberPages?

    enum Kind {
        /// Nobody waits for it, and it is not sent again: all is said again instead.
        case fleeting
        /// A backend waits for it, and hears at once that the state is away.
        case question
        /// It waits while the state is away.
        case lasting
    }

    /// What its caller is told where Redis refuses it like that. Scripts write before they tell: one without memory or
    /// replicas has told nothing.
    func fault(of code: String) -> StateFault {
        switch code {
        case "SETTLING": mayBeDone ? .unknown : .settling
        case "FENCED", "OOM", "NOREPLICAS", "BUSY", "MISCONF", "READONLY", "LOADING", "MASTERDOWN", "MOVED",
            "CROSSSLOT", "CLUSTERDOWN":
            fault
        default: .unknown
        }
    }

    init(_ sent: SentChannelCall, _ command: SharedCommand, bucket: Int, deadline: Instant) {
        (number, hub) = (sent.number, sent.hub)
        kind =
            switch sent.call {
            case .relay: .fleeting
            case .publish, .facts, .users, .list: .question
            case .enter, .exit, .assert, .reap, .due: .lasting
            }
        self.command = command
        self.bucket = bucket
        self.deadline = deadline
    }
}

/// A question to all buckets, whose answers are one.
final class LinkGather {
    private var left: Int
    private var found: [String: ChannelFacts] = [:]
    private var hasFailed = false

    init(_ count: Int) { left = count }

    /// Takes an answer, nil if there is none. Returns the whole once the last has come.
    func take(_ answer: [UInt8]?, _ apps: KnownApps) -> ChannelReply? {
        if let answer, case .reply(_, .list(let channels))? = try? ChannelNews(answer, apps) {
            found.merge(channels) { first, _ in first }
        } else {
            hasFailed = true
        }
        left -= 1
        guard left == 0 else { return nil }
        return hasFailed ? .unavailable(.notDone) : .list(found)
    }
}
