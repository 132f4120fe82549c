import Foundation

/// A scheduler in memory with a clock of its own, for tests, previews, and systems without UserNotifications.
public actor VirtualNotificationScheduler: NotificationScheduling {
    /// A notification that has come.
    public struct Delivery: Sendable, Equatable {
        /// When.
        public let date: Date
        /// What.
        public let request: NotificationRequest
    }

    /// The time of its clock.
    public private(set) var now: Date
    /// What is scheduled, by id.
    public private(set) var pending: [String: NotificationRequest] = [:]
    /// What has come, in order.
    public private(set) var delivered: [Delivery] = []
    /// How often the person was asked.
    public private(set) var questions = 0
    /// The times of each that have not come.
    private var times: [String: [DateComponents]] = [:]
    private let calendar: Calendar
    private let isAllowed: Bool
    private var isAsked = false

    /// Nothing scheduled.
    ///
    /// - Parameters:
    ///   - now: the time at which its clock stands.
    ///   - zone: where the components of a schedule are meant that name no zone.
    ///   - isAllowed: what the person answers.
    public init(now: Date, zone: TimeZone, isAllowed: Bool = true) {
        self.now = now
        self.isAllowed = isAllowed
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = zone
        self.calendar = calendar
    }

    /// Asks once.
    public func requestAuthorizationIfNeeded() async throws {
        if !isAsked {
            isAsked = true
            questions += 1
        }
        guard isAllowed else { throw NotificationError.denied }
    }

    /// Schedules a notification in place of one with the same id.
    public func schedule(_ request: NotificationRequest) async throws {
        guard !request.schedule.parts.components.isEmpty else { throw NotificationError.noTime }
        pending[request.id] = request
        times[request.id] = request.schedule.parts.components
    }

    /// Takes back what has not come yet.
    public func cancel(ids: [String]) async {
        for id in ids { (pending[id], times[id]) = (nil, nil) }
    }

    /// Moves the clock; what was due until then comes.
    public func advance(to date: Date) {
        while let (time, ids) = next(), time <= date {
            // All that come at one moment, before the clock stands there: afterwards none of them is still to come.
            for id in ids {
                guard let request = pending[id] else { continue }
                let due = times[id, default: []].filter { next($0) == time }
                delivered.append(Delivery(date: time, request: request))
                guard !request.schedule.parts.repeats else { continue }
                // What does not repeat goes after its last time.
                times[id]?.removeAll { due.contains($0) }
                if times[id]?.isEmpty == true { (pending[id], times[id]) = (nil, nil) }
            }
            now = time
        }
        now = max(now, date)
    }

    /// What comes next, in the order of ids.
    private func next() -> (Date, [String])? {
        let dates = times.compactMap { id, times in times.compactMap(next).min().map { (id: id, date: $0) } }
        guard let first = dates.map(\.date).min() else { return nil }
        return (first, dates.filter { $0.date == first }.map(\.id).sorted())
    }

    private func next(_ components: DateComponents) -> Date? {
        var calendar = calendar
        if let zone = components.timeZone { calendar.timeZone = zone }
        return calendar.nextDate(after: now, matching: components, matchingPolicy: .nextTime)
    }
}
