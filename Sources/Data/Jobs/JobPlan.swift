import Clock

/// When each job runs next, and how much of it. No I/O, no clock of its own.
struct JobPlan {
    /// A job and its next time.
    private struct Entry {
        let job: Job
        let interval: Duration
        var due: Instant
        var pace = JobPace()
    }

    private var entries: [Entry]

    /// - Parameters:
    ///   - jobs: each with the time between its runs.
    ///   - delay: the time until the first run of a retention job; the others run at once.
    init(_ jobs: [(job: Job, interval: Duration)], delay: Duration, now: Instant) {
        entries = jobs.map { job, interval in
            Entry(job: job, interval: interval, due: job.isRetention ? now.advanced(by: delay) : now)
        }
    }

    /// The job that has been due for longest and its batch, or how long until one is due; nil if there are no jobs.
    func next(now: Instant) -> Next? {
        guard let entry = entries.min(by: { $0.due < $1.due }) else { return nil }
        guard entry.due > now else { return .run(entry.job, batch: entry.pace.batch) }
        return .wait(entry.due.duration(since: now))
    }

    /// What to do next.
    enum Next: Equatable {
        case run(Job, batch: Int)
        case wait(Duration)
    }

    /// A batch did `count` in `time`, and there may be more.
    mutating func ran(_ job: Job, count: Int, isMore: Bool, for time: Duration, now: Instant) {
        change(job) { entry in
            entry.pace.ran(for: time, count: count)
            // Hubs that started together drift apart.
            let pause = isMore ? JobPace.pause(after: time) : entry.interval * Double.random(in: 0.75...1.25)
            entry.due = now.advanced(by: pause)
        }
    }

    /// A batch failed. It is tried again soon: what it found may be locked, or a function may be missing for a moment.
    mutating func failed(_ job: Job, now: Instant) {
        change(job) { entry in
            entry.pace.failed()
            entry.due = now.advanced(by: JobsLimits.retryPause)
        }
    }

    private mutating func change(_ job: Job, _ body: (inout Entry) -> Void) {
        guard let index = entries.firstIndex(where: { $0.job == job }) else { return }
        body(&entries[index])
    }
}
