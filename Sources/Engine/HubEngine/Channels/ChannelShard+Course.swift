import Bytes
import Clock
import Metrics
import Pusher

// A state that is elsewhere: what it says, and when.
extension ChannelShard {
    /// What the link has brought: one `ChannelNews`. What cannot be read is dropped, and counted.
    package mutating func received(_ bytes: [UInt8], now: Instant, _ effects: inout Effects) {
        do throws(SharedProblem) {
            switch try ChannelNews(bytes, apps) {
            case .change(let change): changed(change, now: now, &effects)
            case .webhook(let index, let event): if let app = apps[index] { effects.append(.webhook(app, event)) }
            case .reply(let number, let reply): replied(number, reply, now: now, &effects)
            // If nobody here is in it, that is asserted, and the state drops its stale count.
            case .latest(let key, let last): if locals[key]?.course?.hasMissed(last) != false { assert(key, now: now) }
            }
        } catch {
            metrics.sharedProblems[error.rawValue].add()
        }
    }

    @inline(never)
    mutating func ask(for entry: ChannelEntry, from loop: Int, now: Instant, _ effects: inout Effects) {
        switch locals.held(for: entry, metrics.channels, apps, limits, beside: unasserted.vacating.count) {
        case .failure(let refusal): refuse(entry, from: loop, refusal, &effects)
        case .success(let local): ask(for: Newcomer(entry, loop, askedAt: now), local, now)
        }
    }

    private mutating func ask(for newcomer: Newcomer, _ local: LocalSubscribers, _ now: Instant) {
        let (entry, course) = (newcomer.entry, local.madeCourse())
        let entering = Entering(entry, asksMembers: local.loops.isEmpty || course.delivered == nil)
        _ = call(.enter(entry.key, entering), .entry(newcomer), now)
        course.waits(entry, for: waits.lastNumber)
    }

    /// Nobody can say whether the session is in: it is asked for again after a pause. The state may have let it in, so what
    /// this hub has in the channel, the session not among it, is asserted before that.
    private mutating func postpone(
        _ newcomer: Newcomer, _ course: ChannelCourse, now: Instant, _ effects: inout Effects
    ) {
        if let over = course.postpone(newcomer, now) { refuse(over.entry, from: over.loop, .unavailable, &effects) }
        pause(newcomer.entry.key, course, now: now)
    }

    // MARK: Replies

    mutating func replied(_ number: UInt64, _ reply: ChannelReply, now: Instant, _ effects: inout Effects) {
        switch waits.take(number) {
        case .entry(let newcomer): replied(reply, to: newcomer, number, now: now, &effects)
        case .silent(let key): if case .unavailable = reply { assert(key, now: now) }
        case .assertion(let key): asserted(key, reply, now: now, &effects)
        case .vacancy(let key):
            let isTold = if case .unavailable = reply { false } else { true }
            unasserted.vacated(key, again: isTold ? nil : now.advanced(by: ChannelWaits.pause))
        case .pause(let key): paused(key, now: now, &effects)
        case .question: effects.append(.reply(number, reply))
        case nil: break
        }
    }

    private mutating func replied(
        _ reply: ChannelReply, to newcomer: Newcomer, _ number: UInt64, now: Instant, _ effects: inout Effects
    ) {
        let entry = newcomer.entry
        let local = locals.held(entry.key)
        let course = local.madeCourse()
        let isAsserted = course.waitEnds(number)
        switch reply {
        case .entered(let entered):
            course.entered(entry)
            if local.loops.isEmpty, course.mayBegin(at: entered, of: entry.key) { course.begin(at: entered) }
            course.ready.append((newcomer, entered, false))
            admit(upTo: course.delivered ?? 0, local, course, now: now, &effects)
            follow(local, course, now: now, &effects)
        case .unavailable(let fault):
            postpone(newcomer, course, now: now, &effects)
            // After the pause: others whose time is over by then are not said to be in.
            if isAsserted || fault == .unknown { course.mustAssert = true }
        default:
            refuse(entry, from: newcomer.loop, reply.refusal, &effects)
            if isAsserted { course.mustAssert = true }
        }
        if course.isInDoubt { pause(entry.key, course, now: now) }
        locals.removeIfUnused(local)
    }

    /// Lets those in whose replies know no more than that.
    private mutating func admit(
        upTo sequence: UInt64, as truth: Entered? = nil, _ local: LocalSubscribers, _ course: ChannelCourse,
        now: Instant, _ effects: inout Effects
    ) {
        let admission = course.admit(upTo: sequence, as: truth)
        for one in admission.admitted {
            letIn(one.newcomer.entry, from: one.newcomer.loop, one.entered, local, missed: one.owed, &effects)
        }
        // The reply to an assertion is newer.
        if admission.isIncomplete { assert(local.key, now: now) }
    }

    // MARK: Changes

    private mutating func changed(_ change: ChannelChange, now: Instant, _ effects: inout Effects) {
        guard let local = locals[change.key] else { return }
        let course = local.madeCourse()
        if course.isOld(change) { return assert(change.key, now: now) }
        course.keep(change)
        follow(local, course, now: now, &effects)
    }

    /// Tells what follows, and lets those in who have waited for it.
    private mutating func follow(
        _ local: LocalSubscribers, _ course: ChannelCourse, now: Instant, _ effects: inout Effects
    ) {
        while let change = course.next() {
            if course.isNews(change) { local.tell(change, &effects) }
            course.learns(change)
            course.delivered = change.sequence
            admit(upTo: change.sequence, local, course, now: now, &effects)
        }
        // What is missing may be on its way.
        if course.isInDoubt { pause(local.key, course, now: now) }
    }

    /// Looks again in a while.
    private mutating func pause(_ key: ChannelKey, _ course: ChannelCourse, now: Instant) {
        guard !course.isPausing else { return }
        course.isPausing = true
        waits.add(.pause(key), waits.next(), due: now.advanced(by: ChannelWaits.pause))
    }

    private mutating func paused(_ key: ChannelKey, now: Instant, _ effects: inout Effects) {
        guard let local = locals[key], let course = local.course else { return }
        course.isPausing = false
        if case .failed = course.assertion {
            course.assertion = .none
            course.mustAssert = true
        }
        believe(local, course, now: now, &effects)
        if course.isInDoubt { assert(key, now: now) }
        // Behind the assertion: one that was let in unseen is not counted twice.
        guard !course.mustAssert else { return pause(key, course, now: now) }
        for newcomer in course.takePostponed() { ask(for: newcomer, local, now) }
        locals.removeIfUnused(local)
    }

    // MARK: Assertions

    /// The way to the state was broken: what came may be less than what was told. All that this hub has is asserted, some
    /// of it at each turn.
    package mutating func assertAll(now: Instant) { unasserted.add(locals.keys, due: now) }

    /// Tells the state what this hub has in the channel, and asks what is true of all.
    mutating func assert(_ key: ChannelKey, now: Instant) {
        guard let local = locals[key] else {
            // The state may still count sessions that have left.
            guard unasserted.vacates(key) else { return }
            _ = call(.assert(key, Attending()), .vacancy(key), now)
            return
        }
        let course = local.madeCourse()
        // One that is under way knows less.
        course.mustAssert = true
        guard case .none = course.assertion else { return }
        course.mustAssert = false
        _ = call(.assert(key, course.attending), .assertion(key), now)
        course.asserts(waits.lastNumber)
    }

    private mutating func asserted(
        _ key: ChannelKey, _ reply: ChannelReply, now: Instant, _ effects: inout Effects
    ) {
        guard let local = locals[key], let course = local.course, case .underWay(let had) = course.assertion else {
            return
        }
        guard case .entered(let entered) = reply else {
            // Nobody can say what is true.
            for newcomer in course.takeBackReady() { postpone(newcomer, course, now: now, &effects) }
            course.assertion = .failed
            return pause(key, course, now: now)
        }
        course.assertion = .answered(entered, had: had)
        if course.delivered.map({ entered.sequence <= $0 }) ?? true { believe(local, course, now: now, &effects) }
        // What is missing may still be on its way.
        if course.isInDoubt { pause(key, course, now: now) }
        locals.removeIfUnused(local)
    }

    /// The reply to the last assertion counts.
    private mutating func believe(
        _ local: LocalSubscribers, _ course: ChannelCourse, now: Instant, _ effects: inout Effects
    ) {
        guard case .answered(let truth, let had) = course.assertion else { return }
        course.assertion = .none
        // It was decided after all that had come by then.
        let isSetBack = truth.sequence < had
        guard isSetBack || truth.sequence >= course.beginning else {
            // It was made before the first one here was let in.
            course.mustAssert = true
            return
        }
        if isSetBack { local.forgetList() }
        for change in course.align(local.key, with: truth, had: had) { local.tell(change, &effects) }
        // They are told what is true by now, in place of what their replies said.
        admit(upTo: isSetBack ? .max : truth.sequence, as: truth, local, course, now: now, &effects)
        follow(local, course, now: now, &effects)
    }
}
