import Bytes
import Clock
import Metrics
import Pusher

// A state that is elsewhere: what it says, and when.
extension ChannelShard {
    func course(of local: LocalSubscribers) -> ChannelCourse {
        if let course = local.course { return course }
        let course = ChannelCourse()
        local.course = course
        return course
    }

    /// What the link has brought: one `ChannelNews`. What cannot be read is dropped, and counted.
    package mutating func received(_ bytes: [UInt8], now: Instant, _ effects: inout Effects) {
        do throws(SharedProblem) {
            switch try ChannelNews(bytes, apps) {
            case .change(let change): changed(change, now: now, &effects)
            case .webhook(let index, let event):
                if let app = apps[index] { effects.append(.webhook(app, event)) }
            case .reply(let number, let reply): replied(number, reply, now: now, &effects)
            }
        } catch {
            metrics.sharedProblems[error.rawValue].add()
        }
    }

    // MARK: Replies

    mutating func replied(_ number: UInt64, _ reply: ChannelReply, now: Instant, _ effects: inout Effects) {
        switch waits.take(number) {
        case .entry(let entry, let loop): replied(reply, to: entry, number, from: loop, now: now, &effects)
        case .silent(let key): if case .unavailable = reply { assert(key, now: now) }
        case .assertion(let key): asserted(key, reply, now: now, &effects)
        case .pause(let key, let isFailed):
            guard let local = locals[key], let course = local.course else {
                if isFailed { assert(key, now: now) }
                return
            }
            if !isFailed { course.isPausing = false }
            believe(local, course, now: now, &effects)
            if isFailed || course.isInDoubt { assert(key, now: now) }
            removeIfUnused(local)
        case .question: effects.append(.reply(number, reply))
        case nil: break
        }
    }

    private mutating func replied(
        _ reply: ChannelReply, to entry: ChannelEntry, _ number: UInt64, from loop: Int, now: Instant,
        _ effects: inout Effects
    ) {
        let local = held(entry.key)
        let course = course(of: local)
        let isAsserted = course.waitEnds(number)
        switch reply {
        case .entered(let entered):
            course.entered(entry)
            // Where nobody is there to be told, nothing was: the state tells no hub of changes while the channel is empty.
            if local.loops.isEmpty, course.ready.isEmpty, course.delivered.map({ $0 < entered.sequence }) ?? true {
                course.begin(at: entered)
            }
            if entered.sequence > course.delivered ?? 0 {
                course.ready.append((entry, loop, entered))
            } else {
                letIn(entry, loop, entered, local, course, now: now, &effects)
            }
            follow(local, course, now: now, &effects)
        default:
            refuse(entry, from: loop, reply.refusal, &effects)
            // It may have been let in all the same.
            if case .unavailable = reply { assert(entry.key, now: now) }
            if isAsserted { course.mustAssert = true }
            if course.isInDoubt { pause(entry.key, course, now: now) }
        }
        removeIfUnused(local)
    }

    /// Lets the newcomer in, with what the others were told since the reply was decided.
    private mutating func letIn(
        _ entry: ChannelEntry, _ loop: Int, _ entered: Entered, _ local: LocalSubscribers, _ course: ChannelCourse,
        now: Instant, _ effects: inout Effects
    ) {
        guard let owed = course.owed(to: entry, since: entered.sequence) else {
            // The reply to an assertion is newer.
            course.ready.append((entry, loop, entered))
            return assert(entry.key, now: now)
        }
        letIn(entry, from: loop, entered, local, missed: owed, &effects)
    }

    // MARK: Changes

    private mutating func changed(_ change: ChannelChange, now: Instant, _ effects: inout Effects) {
        guard let local = locals[change.key] else { return }
        let course = course(of: local)
        if let delivered = course.delivered, change.sequence <= delivered {
            return assert(change.key, now: now)
        }
        course.keep(change)
        follow(local, course, now: now, &effects)
    }

    /// Tells what follows, and lets those in who have waited for it.
    private mutating func follow(
        _ local: LocalSubscribers, _ course: ChannelCourse, now: Instant, _ effects: inout Effects
    ) {
        while let change = course.next() {
            tell(change, local, &effects)
            course.learns(change)
            course.delivered = change.sequence
            for (entry, loop, entered) in course.takeReady(upTo: change.sequence) {
                letIn(entry, loop, entered, local, course, now: now, &effects)
            }
        }
        // What is missing may be on its way.
        if course.isInDoubt { pause(local.key, course, now: now) }
    }

    /// Looks again in a while. Without a course, an assertion has failed, and is made again in any case.
    private mutating func pause(_ key: ChannelKey, _ course: ChannelCourse?, now: Instant) {
        guard course?.isPausing != true else { return }
        course?.isPausing = true
        waits.add(.pause(key, isFailed: course == nil), waits.next(), due: now.advanced(by: ChannelWaits.pause))
    }

    // MARK: Assertions

    /// Tells the state what this hub has in the channel, and asks what is true of all.
    mutating func assert(_ key: ChannelKey, now: Instant) {
        let course = locals[key].map { self.course(of: $0) }
        // One that is under way knows less.
        course?.mustAssert = course?.isAsserting == true
        guard course?.isAsserting != true else { return }
        course?.isAsserting = true
        _ = call(.assert(key, course?.attending ?? Attending()), .assertion(key), now)
        course?.lastAssertion = waits.lastNumber
        course?.toldAtAssertion = course?.delivered ?? 0
    }

    private mutating func asserted(
        _ key: ChannelKey, _ reply: ChannelReply, now: Instant, _ effects: inout Effects
    ) {
        let local = locals[key]
        local?.course?.isAsserting = false
        guard case .entered(let entered) = reply else {
            return pause(key, nil, now: now)
        }
        guard let local, let course = local.course else { return }
        course.truth = entered
        if course.delivered.map({ entered.sequence <= $0 }) ?? true { believe(local, course, now: now, &effects) }
        // What is missing may still be on its way.
        if course.isInDoubt { pause(key, course, now: now) }
        removeIfUnused(local)
    }

    /// The reply to the last assertion counts.
    private mutating func believe(
        _ local: LocalSubscribers, _ course: ChannelCourse, now: Instant, _ effects: inout Effects
    ) {
        guard let truth = course.truth else { return }
        course.truth = nil
        // It was decided after all that had been told by then.
        let isSetBack = truth.sequence < course.toldAtAssertion
        if isSetBack || course.delivered.map({ truth.sequence > $0 }) ?? true {
            for change in course.align(local.key, with: truth, isSetBack: isSetBack) { tell(change, local, &effects) }
        }
        // They are told what is true by now, in place of what their replies said.
        for (entry, loop, _) in course.takeReady(upTo: truth.sequence) {
            letIn(entry, loop, truth, local, course, now: now, &effects)
        }
        follow(local, course, now: now, &effects)
    }
}
