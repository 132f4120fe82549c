/// A local notification, of any app.
public struct NotificationRequest: Sendable, Equatable, Codable {
    /// A stable name. A request with the id of another one takes its place.
    public let id: String
    /// The first line.
    public let title: String
    /// The text below it.
    public let body: String
    /// When it comes.
    public let schedule: NotificationSchedule

    /// A request.
    public init(id: String, title: String, body: String, schedule: NotificationSchedule) {
        self.id = id
        self.title = title
        self.body = body
        self.schedule = schedule
    }
}
