import Bytes
import Gateway
import HTTP
import HubEngine
import Pusher
import Sync

/// Why a request to the console cannot be carried out.
struct ConsoleProblem: Error {
    let response: HTTPResponse

    init(_ status: Status, _ text: String) {
        response = .problem(status, text: text)
    }
}

/// A user's stream, as the console is asked about it.
struct ConsoleStream: Sendable, Equatable {
    let id: StreamID
    /// Without a prefix.
    let channel: String

    var user: String { id.user }
    var topic: String { id.topic }

    /// - Parameter channel: `user.42.adherence`, or `private-user.42.adherence`.
    init(_ channel: String) throws(ConsoleProblem) {
        guard let name = try? StreamName.parse(channel),
            let plain = StreamName(form: .user, stream: name.stream).format()
        else { throw ConsoleProblem(.badRequest, "channel must name a user's channel, such as user.42.adherence.") }
        id = name.stream
        self.channel = plain
    }
}

/// The number of an event. Without an epoch: the one in which the database is.
struct ConsoleNumber: Sendable, Equatable {
    let offset: Int64
    let epoch: Epoch?

    fileprivate init(_ query: Query) throws(ConsoleProblem) {
        offset = try query.number("offset")
        epoch = query["epoch"].map { Epoch($0) }
    }
}

/// What is asked of the console.
enum ConsoleRoute: Sendable {
    case hub
    /// Those with which it shares ordinary channels.
    case hubs
    /// Of one user, or of all.
    case connections(user: String?, app: String?)
    case channels(prefix: String, app: String)
    /// Who is in a presence channel.
    case members(ChannelName, app: String)
    case events(SurveyedEventFilter)
    /// From commit to socket, of the last seconds.
    case latency
    case log(ConsoleStream)
    case payload(ConsoleStream, ConsoleNumber)
    case way(ConsoleStream, ConsoleNumber)
    case publish([UInt8], app: String)
    /// Ends all connections of the user.
    case terminate(user: String, app: String)

    /// Reads the request. Those that change something, or show what must not be seen unnoticed, are `POST`.
    init(_ request: HTTPRequest) throws(ConsoleProblem) {
        let query = try Query(request.query)
        let name = request.path.dropFirst("/console/api/".count)
        let isPost = name == "payload" || name == "publish" || name == "terminate"
        guard request.method == (isPost ? .post : .get) else {
            throw ConsoleProblem(.methodNotAllowed, isPost ? "Use POST." : "Use GET.")
        }
        switch name {
        case "hub": self = .hub
        case "hubs": self = .hubs
        case "connections": self = .connections(user: query["user"], app: query["app"])
        case "channels": self = .channels(prefix: query["prefix"] ?? "", app: try query.wanted("app"))
        case "events":
            var filter = SurveyedEventFilter()
            filter.name = query["name"] ?? ""
            filter.channel = query["channel"] ?? ""
            if query["bytes"] != nil { filter.bytesMin = Int(clamping: try query.number("bytes")) }
            self = .events(filter)
        case "latency": self = .latency
        case "log": self = .log(try ConsoleStream(query.wanted("channel")))
        case "payload": self = .payload(try ConsoleStream(query.wanted("channel")), try ConsoleNumber(query))
        case "way": self = .way(try ConsoleStream(query.wanted("channel")), try ConsoleNumber(query))
        case "members":
            guard let channel = ChannelName(try query.wanted("channel")), channel.kind.isPresence else {
                throw ConsoleProblem(.badRequest, "channel must name a presence channel, such as presence-room.")
            }
            self = .members(channel, app: try query.wanted("app"))
        case "publish": self = .publish(request.body, app: try query.wanted("app"))
        case "terminate": self = .terminate(user: try query.wanted("user"), app: try query.wanted("app"))
        default: throw ConsoleProblem(.notFound, "The console has no such route.")
        }
    }

    /// The event in the body of Pusher's `POST events`, for each of its channels. Users' channels are fed by the database
    /// alone, in every app: what an operator made up must not look like a dose.
    static func publications(_ body: [UInt8], of app: App) throws(ConsoleProblem) -> [Publication] {
        var limits = PublishLimits()
        limits.dataBytes = app.limits.eventBytesMax
        limits.channels = app.limits.channelsPerPublishMax
        let decoded = body.withUnsafeBytes { body -> Result<PublishedEvent, PublishError> in
            do throws(PublishError) { return .success(try PublishedEvent.decode(body, limits: limits)) } catch {
                return .failure(error)
            }
        }
        let event: PublishedEvent
        switch decoded {
        case .success(let decoded): event = decoded
        case .failure(let error): throw ConsoleProblem(.badRequest, "\(error)")
        }
        guard !event.channels.contains(where: { isUsers($0.string) }) else {
            throw ConsoleProblem(.forbidden, "Events of users' channels come from the database alone.")
        }
        return event.channels.map {
            Publication(channel: $0, event: event.name, data: event.data, except: event.except)
        }
    }

    private static func isUsers(_ channel: String) -> Bool {
        channel.hasPrefix("user.") || channel.hasPrefix("private-user.")
    }
}

/// The parameters of a request.
private struct Query {
    private var values: [String: String] = [:]

    init(_ bytes: [UInt8]) throws(ConsoleProblem) {
        let repeated = bytes.withUnsafeBytes { bytes -> String? in
            var reader = FormReader(bytes)
            while let (name, value) = reader.next() {
                guard let name = Percent.decodeString(name, plusIsSpace: true),
                    let value = Percent.decodeString(value, plusIsSpace: true), !value.isEmpty
                else { continue }
                if values.updateValue(value, forKey: name) != nil { return name }
            }
            return nil
        }
        if let repeated { throw ConsoleProblem(.badRequest, "\(repeated) is given twice.") }
    }

    subscript(name: String) -> String? { values[name] }

    func wanted(_ name: String) throws(ConsoleProblem) -> String {
        guard let value = values[name] else { throw ConsoleProblem(.badRequest, "\(name) is missing.") }
        return value
    }

    func number(_ name: String) throws(ConsoleProblem) -> Int64 {
        guard let number = Int64(try wanted(name)), number >= 0 else {
            throw ConsoleProblem(.badRequest, "\(name) must be a whole number.")
        }
        return number
    }
}
