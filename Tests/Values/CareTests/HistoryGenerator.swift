import Care
import TestSupport

/// Generates a random history step by step from the model's state, so that keys, revisions and statuses collide. The kinds
/// of steps and their frequencies differ between histories (swarm testing).
struct HistoryGenerator {
    /// The frequencies of one history.
    struct Swarm {
        var weights: [Int]
        var repeated = 0.0
        var corrupted = 0.0
        var foreign = 0.0
        var jumps = 0.0
        var misnumbered = 0.0
        var users = 1
        var doses = 3

        init(using random: inout SeededRandom) {
            weights = DoseAction.types.map { type in
                // Actions on earlier actions, and notes, are a little more frequent: they interact most.
                let weights = ["undo", "resolve", "addNote"].contains(type) ? [0, 1, 3, 3] : [0, 1, 1, 3]
                return weights.randomElement(using: &random) ?? 1
            }
            if weights.allSatisfy({ $0 == 0 }) { weights[0] = 1 }
            repeated = [0, 0.1, 0.3].randomElement(using: &random) ?? 0
            corrupted = [0, 0.05, 0.3].randomElement(using: &random) ?? 0
            foreign = [0, 0.2, 0.3].randomElement(using: &random) ?? 0
            jumps = [0.05, 0.2, 0.5].randomElement(using: &random) ?? 0
            misnumbered = [0, 0.1].randomElement(using: &random) ?? 0
            users = [1, 1, 2, 3].randomElement(using: &random) ?? 1
            doses = Int.random(in: 2...14, using: &random)
        }
    }

    static let users: [Identifier] = ["ann", "b.=é o", "c@x,1;"]
    /// Actions in a history; further steps are by other writers.
    static let actions = 55

    let swarm: Swarm
    var random: SeededRandom
    var model: CareModel
    var now: Timestamp
    private(set) var sent: [(user: Identifier, envelope: CareEnvelope)] = []
    private var acted: [Timestamp] = []
    private(set) var made: [Identifier] = []
    /// The dose of the last action or jump: steps that interact mostly meet there.
    private(set) var focus: (user: Identifier, dose: Identifier)?

    init(seed: UInt64, model: CareModel) {
        random = SeededRandom(seed: seed)
        swarm = Swarm(using: &random)
        self.model = model
        // 2026-03-10T00:00Z and some hours.
        now = Timestamp(microseconds: 1_773_100_800_000_000 + Int64.random(in: 0..<86_400_000_000, using: &random))
    }

    /// A whole history, and the expected answer to each step.
    mutating func run() -> (steps: [Step], expected: [String]) {
        var steps: [Step] = []
        var expected: [String] = []
        func play(_ change: Step.Change, by user: Identifier, _ self: inout Self) {
            let step = Step(at: self.now, user: user, change: change)
            steps.append(step)
            expected.append(self.model.play(step))
        }
        for user in Self.users.prefix(swarm.users) {
            play(.zone(Subject.zones.keys.sorted().randomElement(using: &random) ?? "UTC"), by: user, &self)
        }
        for _ in 0..<swarm.doses {
            let user = anyUser()
            play(.insert(newDose(of: user)), by: user, &self)
        }
        for _ in 0..<Self.actions {
            if chance(swarm.jumps) {
                jump()
            } else {
                now = now.adding(seconds: Int.random(in: 0...600, using: &random))
            }
            if chance(swarm.foreign) {
                let user = nextUser()
                play(foreign(user), by: user, &self)
            }
            let (user, envelope) = action()
            sent.append((user, envelope))
            acted.append(now)
            play(.action(envelope), by: user, &self)
        }
        return (steps, expected)
    }

    // MARK: Chance

    mutating func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &random) < share }

    /// Often the last dose's user.
    mutating func nextUser() -> Identifier { (chance(0.5) ? focus?.user : nil) ?? anyUser() }

    mutating func anyUser() -> Identifier { pick(Array(Self.users.prefix(swarm.users))) ?? "ann" }

    mutating func pick<Element>(_ elements: [Element]) -> Element? { elements.randomElement(using: &random) }

    /// Jumps to an edge, a moment beside one, or far, in both directions.
    private mutating func jump() {
        let user = focus?.user ?? anyUser()
        if let dose = model.accounts[user]?.doses[dose(of: user)], chance(0.7) {
            focus = (user, dose.id)
            let edge = pick([dose.windowEnd, dose.windowEnd, dose.scheduledAt]) ?? now
            now = Timestamp(microseconds: edge.microseconds + (pick([-1, 0, 1]) ?? 0))
            return
        }
        if let before = pick(Array(acted.suffix(5))), chance(0.2) {
            now = Timestamp(microseconds: before.microseconds + 86_400_000_000 + (pick([0, 1]) ?? 0))
            return
        }
        let seconds = pick([3600, 14_400, 43_200, 86_400, 90_000, -3600, -90_000, 604_800]) ?? 0
        now = now.adding(seconds: seconds + Int.random(in: -60...60, using: &random))
    }

    // MARK: Doses

    mutating func newDose(of user: Identifier) -> Dose {
        // An id may be reused while its dose exists, or after.
        let id = chance(0.1) ? pick(made) ?? "d0" : Identifier(pick(["d\(made.count)", "é\(made.count)"]) ?? "d")
        made.append(id)
        // Each has a schedule of its own, or none: of several doses in one slot of a schedule, the planner leaves one.
        let schedule = "s\(made.count)"
        let zone = pick(Subject.zones.keys.sorted()) ?? "UTC"
        let offset = Subject.zones[zone] ?? 0
        let days = chance(0.25) ? Int.random(in: -33...2, using: &random) : Int.random(in: -3...1, using: &random)
        let minutes = Int.random(in: 0..<96, using: &random) * 15
        let base = now.date(utcOffset: 0).days * 86_400
        var at = Timestamp(microseconds: Int64(base + days * 86_400 + minutes * 60) * 1_000_000)
        // One that is due now, so that its window is open.
        if chance(0.15) { at = now.adding(seconds: pick([-3000, -600, 0]) ?? 0) }
        let status = chance(0.5) ? .scheduled : chance(0.65) ? .missed : pick(DoseStatus.allCases) ?? .scheduled
        let isTaken = status == .taken || status == .madeUp
        let windowSeconds = pick([900, 3600, 14_400]) ?? 900
        return Dose(
            id: id, user: user, scheduleID: chance(0.6) ? schedule : nil,
            productID: pick([nil, "p1", "p2", "p3"]) ?? nil,
            state: DoseState(
                status, takenAt: isTaken ? at.adding(seconds: 60) : nil, reason: chance(0.1) ? "imported" : nil),
            note: chance(0.2) ? pick(["", "from a backend", "note 1"]) : nil, scheduledAt: at, zone: zone,
            utcOffset: offset, day: at.date(utcOffset: offset),
            windowStart: chance(0.3) ? at.adding(seconds: -1800) : nil, windowEnd: at.adding(seconds: windowSeconds),
            createdAt: now)
    }

    // MARK: Backends

    private mutating func foreign(_ user: Identifier) -> Step.Change {
        // Several doses may be on several days, whose streaks are then recomputed together.
        let ids = [dose(of: user)] + (0..<(chance(0.5) ? 0 : 4)).map { _ in anyDose(of: user) }
        let distinct = Array(Set(ids)).sorted()
        switch Int.random(in: 0..<12, using: &random) {
        case 0..<4:
            let status = pick(DoseStatus.allCases) ?? .missed
            let isTaken = status == .taken || status == .madeUp
            return .update(
                distinct, state: DoseState(status, takenAt: isTaken ? now : nil, reason: chance(0.1) ? "backend" : nil),
                note: nil, day: nil)
        case 4..<6:
            return .update(distinct, state: nil, note: .some(pick([nil, "backend note", "n1"]) ?? nil), day: nil)
        case 6:
            let day = now.date(utcOffset: 0).adding(Int.random(in: -4...2, using: &random))
            return .update(distinct, state: nil, note: nil, day: day)
        case 7: return .delete(distinct)
        case 8: return .zone(pick(Subject.zones.keys.sorted()) ?? "UTC")
        case 9: return .move(distinct[0], to: anyUser())
        case 10 where chance(0.6): return .epoch("e\(acted.count)")
        default: return .insert(newDose(of: user))
        }
    }

    /// Lets the next steps meet the doses of a user's action.
    mutating func attend(to action: Identifier, of user: Identifier) {
        guard let account = model.accounts[user] else { return }
        let doses = account.doses(of: action)
        if let focus, focus.user == user, doses.contains(focus.dose) { return }
        if let dose = pick(doses) { focus = (user, dose) }
    }

    /// The last action's dose if it is the user's.
    func focusedDose(of user: Identifier) -> Dose? {
        focus.flatMap { $0.user == user ? model.accounts[user]?.doses[$0.dose] : nil }
    }

    /// A dose of the user; sometimes another user's, or none.
    mutating func dose(of user: Identifier) -> Identifier {
        if chance(0.04) { return "nowhere" }
        if let focus, focus.user == user, chance(0.75) { return focus.dose }
        let owner = chance(0.04) ? anyUser() : user
        let dose = anyDose(of: owner)
        focus = (user, dose)
        return dose
    }

    mutating func anyDose(of user: Identifier) -> Identifier {
        pick((model.accounts[user]?.doses.keys).map { $0.sorted() } ?? []) ?? "nowhere"
    }
}
