import JSON

/// Why a publish is refused. None of its events is published.
package struct PublishError: Error, Equatable, Sendable {
    /// What is wrong with a body or an event.
    package enum Reason: Equatable, Sendable {
        /// Not JSON, or not an object.
        case malformed(JSONError)
        case noName, nameNotText, longName(max: Int), reservedName
        case noData, dataNotText
        /// Answered with 413.
        case largeData(max: Int)
        case noChannel, channelsNotList, twoChannels, channelsOfBatch, manyChannels(max: Int)
        /// The index of the bad name in `channels`; nil when it is in `channel`.
        case badChannel(index: Int?)
        case badSocketID, badInfo
        case noBatch, batchNotList, eventNotObject, emptyBatch, manyEvents(max: Int)
        /// A user's channel: only the database publishes to it.
        case ownedChannel
    }

    /// What is wrong.
    package let reason: Reason
    /// The event's index in its batch, from 0; nil when there is no batch.
    package var index: Int?

    /// `index` is the event's, in a batch.
    package init(_ reason: Reason, index: Int? = nil) {
        self.reason = reason
        self.index = index
    }

    /// Whether the event is too large rather than malformed.
    package var isTooLarge: Bool {
        if case .largeData = reason { true } else { false }
    }

    /// A sentence for the backend's developer. It contains nothing of the event.
    package var message: String {
        guard let index else { return text }
        return "batch[\(index)]: \(text)"
    }

    private static func text(of error: JSONError) -> String {
        switch error.kind {
        case .wrongKind: "The body is not a JSON object."
        case .duplicateKey: "A member of the body comes twice (the second time at byte \(error.offset))."
        default: "The body is not JSON (byte \(error.offset): \(error.kind.words))."
        }
    }

    private var text: String {
        switch reason {
        case .malformed(let error): Self.text(of: error)
        case .noName: "name is missing: the event's name, a string."
        case .nameNotText: "name must be a string that is not empty: the event's name."
        case .longName(let max): "name is longer than \(max) bytes."
        case .reservedName:
            "name begins with pusher: or pusher_internal:, which are for the hub's own events: choose another."
        case .noData: "data is missing: the event's data, a string."
        case .dataNotText:
            "data must be a string: turn objects into JSON text first, which clients parse. Pusher's libraries do."
        case .largeData(let max):
            "The data content of this event exceeds the allowed maximum (\(max) bytes). limits.eventBytes of the app raises it."
        case .noChannel: "channels is missing: a list of names, or channel with one."
        case .channelsNotList: "channels must be a list of names, one at least."
        case .twoChannels: "channels and channel exclude each other."
        case .channelsOfBatch: "An event of a batch names one channel, by channel."
        case .manyChannels(let max): "channels has more than \(max) names."
        case .badChannel(let index):
            "\(index.map { "channels[\($0)]" } ?? "channel") is no channel name: 1 to 200 letters, digits and _-=@,.; are."
        case .badSocketID: "socket_id is no id of a connection, such as 123.456."
        case .badInfo: "info may ask for user_count and subscription_count, separated by a comma."
        case .noBatch: "batch is missing: a list of events."
        case .batchNotList: "batch must be a list of events."
        case .eventNotObject: "An event must be a JSON object."
        case .emptyBatch: "batch is empty."
        // Hosted Pusher's words: backends search for them.
        case .manyEvents(let max): "Batch too large: batch has more than \(max) events."
        case .ownedChannel:
            "Channels that begin with user. or private-user. get what is written to the database, and nothing by this call."
        }
    }
}
