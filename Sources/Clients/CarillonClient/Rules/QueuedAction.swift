import Bytes
import JSON

/// The state of an action in the queue.
enum QueuedActionState: String, Sendable {
    /// It was not sent.
    case queued
    /// It has its number, and no answer.
    case sent
    /// A person must decide its conflict, or one that it waits behind.
    case parked
    /// The hub refuses it for good; it stays until the person has seen it.
    case failed
    /// It is answered. It stays until its events are here, and for a day so that it can be undone.
    case done

    /// Whether the hub has still to confirm it.
    var isWaiting: Bool { self == .queued || self == .sent }
}

/// Where a channel stands.
struct StoredPosition: Sendable, Equatable {
    var epoch: String
    var offset: Int64

    init(epoch: String, offset: Int64) {
        self.epoch = epoch
        self.offset = offset
    }

    init?(_ tree: JSONTree?) {
        guard let epoch = tree?["epoch"]?.string, let offset = tree?["offset"]?.integer else { return nil }
        self.init(epoch: epoch, offset: offset)
    }

    var tree: JSONTree { .object([.init("epoch", .string(epoch)), .init("offset", .integer(offset))]) }
}

/// One action of the queue. Its key is fixed when the person acts, its number at first send.
struct QueuedAction: Sendable {
    /// Its place: first in, first out.
    var id: Int64 = 0
    let key: String
    let type: String
    var payload: JSONTree
    /// When the person acted, and where.
    let clientTime: String
    let zone: String
    var n: Int64?
    var base: JSONTree?
    var retries: Int64 = 0
    var state = QueuedActionState.queued
    /// What it touches, such as `dose:…`: actions on one of them go one after another.
    var entities: [String] = []
    var more = More()

    /// What the rules keep beside an action. Members that are absent are not stored.
    struct More: Sendable {
        /// How to take it back (`ActionMemory`). Of thousands of rows, one is asked: a stored one stays text until then.
        var memory: JSONTree? {
            get {
                switch kept {
                case .tree(let tree): tree
                case .text(let text): try? JSONTree(text)
                case nil: nil
                }
            }
            set { kept = newValue.map { .tree($0) } }
        }
        /// The rule of a reminder as the person saw it.
        var seen: JSONTree?
        /// What the hub said, in brief.
        var answer: JSONTree?
        /// The key of the conflict that it waits behind.
        var behind: String?
        /// The key of the action by which its conflict was decided.
        var decidedBy: String?
        /// The events that it caused end there.
        var until: [String: StoredPosition]?
        /// When it was answered: microseconds since 1970.
        var answeredAt: Int64?
        private var kept: Kept?

        private enum Kept: Sendable {
            case tree(JSONTree)
            /// Validated.
            case text(String)
        }
    }

    /// Whether two rows touch one entity.
    func meets(_ other: QueuedAction) -> Bool { entities.contains { other.entities.contains($0) } }

    /// What the hub said of several doses, of those that ended so.
    func answered(_ status: String) -> [JSONTree] {
        (more.answer?["items"]?.elements ?? []).filter { $0["status"]?.string == status }
    }

    /// What it holds while it waits for a person: of an action on several doses those in conflict. The others are decided.
    var held: [String] {
        let doses = answered("conflict").compactMap { $0["occurrenceId"]?.string.map { "dose:\($0)" } }
        return doses.isEmpty ? entities : doses
    }

    /// Whether another one has to wait behind it for a person.
    func holds(_ other: QueuedAction) -> Bool { state == .parked && held.contains { other.entities.contains($0) } }

    /// The envelope of `sync:action`.
    func envelope(device: String) -> JSONTree {
        var members: [JSONTree.Member] = [
            .init("v", .integer(1)), .init("key", .string(key)), .init("deviceId", .string(device)),
            .init("n", n.map { .integer($0) } ?? .null), .init("type", .string(type)), .init("payload", payload),
            .init("clientTime", .string(clientTime)), .init("tz", .string(zone)),
        ]
        if let base { members.append(.init("base", base)) }
        return .object(members)
    }
}

extension QueuedAction.More {
    /// As it is stored.
    var tree: JSONTree {
        var members: [JSONTree.Member] = []
        func add(_ name: String, _ value: JSONTree?) { if let value { members.append(.init(name, value)) } }
        add("memory", memory)
        add("seen", seen)
        add("answer", answer)
        add("behind", behind.map { .string($0) })
        add("decidedBy", decidedBy.map { .string($0) })
        add("until", until.map { .object($0.map { .init($0.key, $0.value.tree) }) })
        add("answeredAt", answeredAt.map { .integer($0) })
        return .object(members)
    }

    init(_ tree: JSONTree) {
        memory = tree["memory"]
        seen = tree["seen"]
        answer = tree["answer"]
        behind = tree["behind"]?.string
        decidedBy = tree["decidedBy"]?.string
        answeredAt = tree["answeredAt"]?.integer
        if case .object(let members) = tree["until"] {
            until = [:]
            for member in members { until?[member.name] = StoredPosition(member.value) }
        }
    }

    /// From what was stored.
    init(stored text: String) throws {
        var text = text
        self = try text.withUTF8 { bytes in
            var reader = try JSONObjectReader(UnsafeRawBufferPointer(bytes))
            var others: [JSONTree.Member] = []
            var memory: String?
            while let member = try reader.next() {
                if member.isNamed("memory") {
                    memory = member.value.bytes.string
                } else {
                    others.append(.init(member.key.string ?? "", try JSONTree(member.value.bytes.string)))
                }
            }
            var more = QueuedAction.More(.object(others))
            more.kept = memory.map { .text($0) }
            return more
        }
    }
}

extension JSONTree {
    /// The elements of an array; none of anything else.
    var elements: [JSONTree] {
        guard case .array(let elements) = self else { return [] }
        return elements
    }

    /// The members of an object; none of anything else.
    var members: [Member] {
        guard case .object(let members) = self else { return [] }
        return members
    }

    /// Whether an object has the member, null included.
    func has(_ name: String) -> Bool { members.contains { $0.name == name } }

    /// The object with members in place of those with the same names.
    func setting(_ more: [Member]) -> JSONTree {
        .object(members.filter { member in !more.contains { $0.name == member.name } } + more)
    }
}
