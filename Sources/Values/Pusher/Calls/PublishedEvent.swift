import Bytes
import JSON

/// Limits of what a backend publishes. Each is the largest value allowed.
package struct PublishLimits: Sendable, Equatable {
    /// Bytes of `data`.
    package var dataBytes = 10_240
    /// Channels of one event.
    package var channels = 100
    /// Events of one batch.
    package var events = 10
    /// Bytes of an event's name.
    package var nameBytes = 200
    /// Levels of nesting in a body.
    package var depth = 32

    /// Pusher's figures.
    package init() {}
}

/// An event to publish (Pusher's "HTTP API reference", `POST event` and `POST batch events`). It owns all it holds.
package struct PublishedEvent: Equatable, Sendable {
    /// The event's name.
    package let name: String
    /// The content of the string `data`.
    package let data: [UInt8]
    /// At least one channel, each once.
    package let channels: [ChannelName]
    /// The connection that does not get the event.
    package let except: SocketID?
    /// What the answer tells about the channels.
    package let info: ChannelInfo

    /// Reads the body of `POST events`.
    package static func decode(
        _ body: UnsafeRawBufferPointer, limits: PublishLimits = PublishLimits()
    ) throws(PublishError) -> PublishedEvent {
        var members = EventMembers()
        do throws(JSONError) {
            try members.read(body, depth: limits.depth)
        } catch {
            throw PublishError(.malformed(error))
        }
        return try members.event(limits, ofBatch: false)
    }

    /// Reads the body of `POST batch_events`.
    package static func decode(
        batch body: UnsafeRawBufferPointer, limits: PublishLimits = PublishLimits()
    ) throws(PublishError) -> [PublishedEvent] {
        var list: JSONValue?
        do throws(JSONError) {
            var reader = try JSONObjectReader(body, maxDepth: limits.depth)
            while let member = try reader.next() {
                if member.isNamed("batch") { try list.takeOnce(member.value) }
            }
        } catch {
            throw PublishError(.malformed(error))
        }
        guard let list, list.kind != .null else { throw PublishError(.noBatch) }
        guard list.kind == .array else { throw PublishError(.batchNotList) }
        var events: [PublishedEvent] = []
        // Too many events is reported before a fault in one of them.
        var fault: PublishError?
        var index = 0
        do {
            var reader = try list.array(maxDepth: limits.depth - 1)
            while let value = try reader.next() {
                guard index < limits.events else { throw PublishError(.manyEvents(max: limits.events)) }
                do throws(PublishError) {
                    if fault == nil { events.append(try event(value, at: index, behind: list.offset, limits)) }
                } catch {
                    fault = error
                }
                index += 1
            }
        } catch let error as PublishError {
            throw error
        } catch let error as JSONError {
            throw PublishError(.malformed(JSONError(error.kind, at: list.offset + error.offset)))
        } catch {
            throw PublishError(.batchNotList)
        }
        if let fault { throw fault }
        guard !events.isEmpty else { throw PublishError(.emptyBatch) }
        return events
    }

    /// - Parameter start: offset of the list in the body.
    private static func event(
        _ value: JSONValue, at index: Int, behind start: Int, _ limits: PublishLimits
    ) throws(PublishError) -> PublishedEvent {
        guard value.kind == .object else { throw PublishError(.eventNotObject, index: index) }
        var members = EventMembers()
        do throws(JSONError) {
            try members.read(value.bytes, depth: limits.depth - 2)
        } catch {
            let offset = start + value.offset + error.offset
            throw PublishError(.malformed(JSONError(error.kind, at: offset)), index: index)
        }
        do throws(PublishError) {
            return try members.event(limits, ofBatch: true)
        } catch {
            throw PublishError(error.reason, index: index)
        }
    }

    /// Reads query parameters sent in place of a body (`channels[]=a&channels[]=b`).
    package static func decode(
        _ parameters: CallParameters, limits: PublishLimits = PublishLimits()
    ) throws(PublishError) -> PublishedEvent {
        guard let data = parameters.string("data") else { throw PublishError(.noData) }
        var names = parameters.values("channels[]")
        let channel = parameters.values("channel")
        guard names.isEmpty || channel.isEmpty else { throw PublishError(.twoChannels) }
        let isList = !names.isEmpty
        if !isList { names = Array(channel.prefix(1)) }
        guard !names.isEmpty else { throw PublishError(.noChannel) }
        guard names.count <= limits.channels else { throw PublishError(.manyChannels(max: limits.channels)) }
        var channels = UniqueChannels()
        for (index, name) in names.enumerated() {
            guard let name = name.withUnsafeBytes({ ChannelName($0) }) else {
                throw PublishError(.badChannel(index: isList ? index : nil))
            }
            channels.append(name)
        }
        return PublishedEvent(
            name: try name(parameters.string("name"), limits), data: try checked(Array(data.utf8), limits),
            channels: channels.names, except: try socketID(in: parameters), info: try info(in: parameters))
    }

    /// Reads the deprecated `POST channels/{channel}/events`: the body is the data, the rest is in the query.
    package static func decode(
        data: UnsafeRawBufferPointer, _ parameters: CallParameters, to channel: ChannelName,
        limits: PublishLimits = PublishLimits()
    ) throws(PublishError) -> PublishedEvent {
        guard UTF8Validator.isValid(data) else { throw PublishError(.dataNotText) }
        return PublishedEvent(
            name: try name(parameters.string("name"), limits), data: try checked([UInt8](data), limits),
            channels: [channel], except: try socketID(in: parameters), info: [])
    }

    // MARK: Parts

    fileprivate static func name(_ name: String?, _ limits: PublishLimits) throws(PublishError) -> String {
        guard let name, !name.isEmpty else { throw PublishError(.noName) }
        guard name.utf8.count <= limits.nameBytes else { throw PublishError(.longName(max: limits.nameBytes)) }
        // Clients take these for the hub's own events, such as a subscription that succeeded or a new member.
        guard !name.utf8.starts(with: "pusher:".utf8), !name.utf8.starts(with: "pusher_internal:".utf8) else {
            throw PublishError(.reservedName)
        }
        return name
    }

    fileprivate static func checked(_ data: [UInt8], _ limits: PublishLimits) throws(PublishError) -> [UInt8] {
        guard data.count <= limits.dataBytes else { throw PublishError(.largeData(max: limits.dataBytes)) }
        return data
    }

    /// The attributes that `info` asks for. A publish does not return a channel's last event (`cache`).
    fileprivate static func info(_ list: UnsafeRawBufferPointer) throws(PublishError) -> ChannelInfo {
        guard let info = ChannelInfo(list: list), !info.contains(.cache) else { throw PublishError(.badInfo) }
        return info
    }

    private static func info(in parameters: CallParameters) throws(PublishError) -> ChannelInfo {
        let asked = parameters.withValue("info") { list in
            Result { () throws(PublishError) in try Self.info(list) }
        }
        guard let asked else { return [] }
        return try asked.get()
    }

    private static func socketID(in parameters: CallParameters) throws(PublishError) -> SocketID? {
        guard let socketID = parameters.withValue("socket_id", { SocketID($0) }) else { return nil }
        guard let socketID else { throw PublishError(.badSocketID) }
        return socketID
    }
}

/// The members of an event, pointing into its text. A known member must not come twice; unknown ones are ignored.
private struct EventMembers {
    private var name: JSONValue?
    private var data: JSONValue?
    private var channel: JSONValue?
    private var channels: JSONValue?
    private var socketID: JSONValue?
    private var info: JSONValue?

    mutating func read(_ text: UnsafeRawBufferPointer, depth: Int) throws(JSONError) {
        var reader = try JSONObjectReader(text, maxDepth: depth)
        while let member = try reader.next() {
            if member.isNamed("name") {
                try name.takeOnce(member.value)
            } else if member.isNamed("data") {
                try data.takeOnce(member.value)
            } else if member.isNamed("channel") {
                try channel.takeOnce(member.value)
            } else if member.isNamed("channels") {
                try channels.takeOnce(member.value)
            } else if member.isNamed("socket_id") {
                try socketID.takeOnce(member.value)
            } else if member.isNamed("info") {
                try info.takeOnce(member.value)
            }
        }
    }

    func event(_ limits: PublishLimits, ofBatch isOfBatch: Bool) throws(PublishError) -> PublishedEvent {
        guard let name, name.kind != .null else { throw PublishError(.noName) }
        guard let text = name.string, !text.isEmpty else { throw PublishError(.nameNotText) }
        let called = try PublishedEvent.name(text, limits)
        guard let data, data.kind != .null else { throw PublishError(.noData) }
        guard let content = data.characters else { throw PublishError(.dataNotText) }
        return PublishedEvent(
            name: called, data: try PublishedEvent.checked(content, limits),
            channels: try names(limits, ofBatch: isOfBatch), except: try except(), info: try asked())
    }

    private func names(_ limits: PublishLimits, ofBatch isOfBatch: Bool) throws(PublishError) -> [ChannelName] {
        let list = channels.flatMap { $0.kind == .null ? nil : $0 }
        let single = channel.flatMap { $0.kind == .null ? nil : $0 }
        if let single {
            guard list == nil else { throw PublishError(isOfBatch ? .channelsOfBatch : .twoChannels) }
            guard let name = single.withCharacters({ ChannelName($0) }) ?? nil else {
                throw PublishError(.badChannel(index: nil))
            }
            return [name]
        }
        guard let list else { throw PublishError(.noChannel) }
        guard !isOfBatch else { throw PublishError(.channelsOfBatch) }
        guard list.kind == .array else { throw PublishError(.channelsNotList) }
        var names = UniqueChannels()
        var index = 0
        do {
            var reader = try list.array(maxDepth: limits.depth)
            while let value = try reader.next() {
                guard index < limits.channels else { throw PublishError(.manyChannels(max: limits.channels)) }
                guard let name = value.withCharacters({ ChannelName($0) }) ?? nil else {
                    throw PublishError(.badChannel(index: index))
                }
                names.append(name)
                index += 1
            }
        } catch let error as PublishError {
            throw error
        } catch {
            throw PublishError(.channelsNotList)
        }
        guard index > 0 else { throw PublishError(.channelsNotList) }
        return names.names
    }

    private func except() throws(PublishError) -> SocketID? {
        guard let socketID, socketID.kind != .null else { return nil }
        guard let id = socketID.withCharacters({ SocketID($0) }) ?? nil else { throw PublishError(.badSocketID) }
        return id
    }

    private func asked() throws(PublishError) -> ChannelInfo {
        guard let info, info.kind != .null else { return [] }
        let asked = info.withCharacters { list in
            Result { () throws(PublishError) in try PublishedEvent.info(list) }
        }
        guard let asked else { throw PublishError(.badInfo) }
        return try asked.get()
    }
}

/// Names in order, each once: clients of a channel named twice get the event once.
private struct UniqueChannels {
    private(set) var names: [ChannelName] = []
    private var known: Set<ChannelName> = []

    mutating func append(_ name: ChannelName) {
        if let first = names.first, known.isEmpty { known.insert(first) }
        guard names.isEmpty || known.insert(name).inserted else { return }
        names.append(name)
    }
}
