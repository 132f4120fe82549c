import Bytes
import JSON
import Pusher

/// What clients say: events, and the names, ids and user data in them.
///
/// - An event is within its limits, and said anew, its data as an object or as a string, it is the same event.
/// - The quick reading of common messages finds what the general one finds, or nothing.
/// - Names, ids and user data that are read are written as they came.
/// - What the hub says with a client's words in it is JSON that says these words.
enum PusherProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        var small = PusherLimits()
        small.eventNameBytes = 12
        small.authBytes = 12
        small.channelDataBytes = 12
        small.userDataBytes = 12
        for limits in [PusherLimits(), small] {
            if let quick = quick(bytes, limits) {
                guard case .success(let general) = decode(bytes, limits), general == quick else {
                    throw Violation(message: "\(quick), read quickly, is something else to the general reader")
                }
            }
            switch decode(bytes, limits) {
            case .success(let event): try checkEvent(event, limits)
            case .failure(let error): try hold(!error.message.description.isEmpty, "an error without a line")
            }
        }
        try checkChannelName(bytes)
        try checkSocketID(bytes)
        for times in UserData.Times.allCases { try checkUserData(bytes, times) }
        try checkChannelData(bytes)
    }

    private static func decode(_ bytes: [UInt8], _ limits: PusherLimits) -> Result<ClientEvent, ClientEventError> {
        withView(bytes) { text in
            Result { () throws(ClientEventError) in try ClientEvent.decode(text, limits: limits) }
        }
    }

    /// What the quick reading of common messages finds, as the general one would have it.
    private static func quick(_ bytes: [UInt8], _ limits: PusherLimits) -> ClientEvent? {
        withView(bytes) { text in
            switch CommonEvent(text, limits: limits) {
            case nil: return nil
            case .ping: return .ping
            case .pong: return .pong
            case .subscribe(let channel):
                return ChannelName(channel).map { .subscribe($0, auth: nil, channelData: nil) }
            case .signin(let auth, let userData):
                var plain = ""
                CommonEvent.unescape(userData) { plain = $0.string }
                return .signin(auth: auth.string, userData: plain)
            case .resume(let data):
                // The message around it is a level too.
                let isObject = (try? JSONValue.parse(data, maxDepth: limits.depth - 1))?.kind == .object
                return isObject ? .sync(name: "resume", data: Array(data)) : nil
            }
        }
    }

    // MARK: Events

    private static func checkEvent(_ event: ClientEvent, _ limits: PusherLimits) throws(Violation) {
        switch event {
        case .ping: try expect(event, #"{"event":"pusher:ping"}"#)
        case .pong: try expect(event, #"{"event":"pusher:pong","data":[]}"#)
        case .subscribe(let channel, let auth, let channelData):
            try hold((auth?.utf8.count ?? 0) <= limits.authBytes, "a long signature")
            try hold((channelData?.utf8.count ?? 0) <= limits.channelDataBytes, "long channel data")
            try expect(
                event, "pusher:subscribe", [("channel", channel.string), ("auth", auth), ("channel_data", channelData)])
        case .unsubscribe(let channel): try expect(event, "pusher:unsubscribe", [("channel", channel.string)])
        case .signin(let auth, let userData):
            try hold(!auth.isEmpty && auth.utf8.count <= limits.authBytes, "a long signature, or none")
            try hold(userData.utf8.count <= limits.userDataBytes, "long user data")
            try expect(event, "pusher:signin", [("auth", auth), ("user_data", userData)])
            try checkAnswer(written { appendSigninSuccess(userData, to: &$0) }, "user_data", userData)
        case .sync(let name, let data):
            try hold(name.utf8.count + 5 <= limits.eventNameBytes, "a long name")
            try hold(isObject(data), "the data of sync: is no object")
            try expect(event, name: "sync:" + name, data: string(data))
            if data.first == UInt8(ascii: "{"), data.last == UInt8(ascii: "}") {
                try expect(event, name: "sync:" + name, data: data)
            }
        case .client(let name, let channel, let data):
            try hold(name.utf8.count <= limits.eventNameBytes && name.hasPrefix("client-"), "no name of a client's")
            try expect(event, name: name, channel: channel.string, data: data)
            try checkBroadcast(name, channel, data)
        case .unknown(let name):
            try hold(!name.isEmpty && name.utf8.count <= limits.eventNameBytes, "a long name, or none")
            try expect(event, name: name, data: [UInt8]("null".utf8))
        }
    }

    /// `text` says `event`.
    private static func expect(_ event: ClientEvent, _ text: String) throws(Violation) {
        try expect(event, [UInt8](text.utf8))
    }

    private static func expect(_ event: ClientEvent, _ text: [UInt8]) throws(Violation) {
        var limits = PusherLimits()
        // A string holds a message of its own, with as many levels.
        limits.depth += 1
        guard case .success(let again) = decode(text, limits) else {
            throw Violation(message: "\(event), said anew, is not understood")
        }
        try hold(again == event, "\(event), said anew, is \(again)")
    }

    /// An event whose data has these members, as an object and as a string.
    private static func expect(
        _ event: ClientEvent, _ name: String, _ members: [(name: StaticString, value: String?)]
    ) throws(Violation) {
        let data = written { writer in
            writer.append("{")
            for (name, value) in members {
                if writer.count > 1 { writer.append(",") }
                writer.append(jsonString: name.bytes)
                writer.append(":")
                if let value { writer.append(jsonString: value) } else { writer.append("null") }
            }
            writer.append("}")
        }
        try expect(event, name: name, data: data)
        try expect(event, name: name, data: string(data))
    }

    private static func expect(
        _ event: ClientEvent, name: String, channel: String? = nil, data: [UInt8]
    ) throws(Violation) {
        try expect(
            event,
            written { writer in
                writer.append(#"{"data":"#)
                writer.append(data)
                if let channel {
                    writer.append(#", "channel" : "#)
                    writer.append(jsonString: channel)
                }
                writer.append(#","other":[{}],"event":"#)
                writer.append(jsonString: name)
                writer.append("}")
            })
    }

    private static func string(_ data: [UInt8]) -> [UInt8] {
        written { writer in data.withUnsafeBytes { writer.append(jsonString: $0) } }
    }

    private static func isObject(_ data: [UInt8]) -> Bool {
        withView(data) { (try? JSONValue.parse($0))?.kind == .object }
    }

    // MARK: What the hub says

    private static func appendSigninSuccess(_ userData: String, to writer: inout ByteWriter) {
        var userData = userData
        userData.withUTF8 { ServerEvent.signinSuccess(userData: UnsafeRawBufferPointer($0), to: &writer) }
    }

    private static func checkBroadcast(_ name: String, _ channel: ChannelName, _ data: [UInt8]) throws(Violation) {
        let text = written { writer in
            data.withUnsafeBytes { data in
                ServerEvent.event(name, channel: { $0.append(utf8: channel.string) }, data: data, to: &writer)
            }
        }
        let members = try strings(text)
        try hold(members["event"] == [UInt8](name.utf8), "broadcast under another name")
        try hold(members["channel"] == [UInt8](channel.string.utf8), "broadcast on another channel")
        try hold(members["data"] == data, "broadcast with other data")
        let succeeded = written {
            ServerEvent.subscriptionSucceeded(
                channel: { $0.append(utf8: channel.string) }, epoch: name, offset: 7, to: &$0)
        }
        let answer = try need(try strings(succeeded)["data"], "an answer without data")
        try hold(isObject(answer), "an answer whose data is no object")
    }

    /// The answer's data says `value` under `name`.
    private static func checkAnswer(_ text: [UInt8], _ name: String, _ value: String) throws(Violation) {
        let data = try need(try strings(text)["data"], "an answer without data")
        try hold(try strings(data)[name] == [UInt8](value.utf8), "an answer with another \(name)")
    }

    /// The members of an object whose values are strings.
    private static func strings(_ text: [UInt8]) throws(Violation) -> [String: [UInt8]] {
        try succeed("the hub's own words") { () throws(JSONError) in
            try withView(text) { text throws(JSONError) in
                var members: [String: [UInt8]] = [:]
                var reader = try JSONObjectReader(text)
                while let member = try reader.next() { members[member.key.string ?? ""] = member.value.characters }
                return members
            }
        }
    }

    // MARK: Names, ids, user data

    private static func checkChannelName(_ bytes: [UInt8]) throws(Violation) {
        guard let name = withView(bytes, { ChannelName($0) }) else { return }
        try hold([UInt8](name.string.utf8) == bytes, "a channel's name that is another")
        try hold(bytes.count <= ChannelName.maximumBytes, "a long name of a channel")
        var longest = ChannelName.Kind.public
        for kind in ChannelName.Kind.allCases
        where kind.prefix.utf8CodeUnitCount > longest.prefix.utf8CodeUnitCount
            && name.string.hasPrefix(kind.prefix.description)
        {
            longest = kind
        }
        try hold(name.kind == longest, "\(name.kind), where the longest prefix says \(longest)")
    }

    private static func checkSocketID(_ bytes: [UInt8]) throws(Violation) {
        guard let id = withView(bytes, { SocketID($0) }) else { return }
        try hold([UInt8](id.string.utf8) == bytes && written { id.append(to: &$0) } == bytes, "another socket id")
    }

    private static func checkChannelData(_ bytes: [UInt8]) throws(Violation) {
        let result = withView(bytes) { text in
            Result { () throws(ChannelDataError) in try ChannelData(text) }
        }
        guard case .success(let data) = result, let channel = ChannelName("presence-x") else { return }
        try hold(
            !data.userID.isEmpty && data.userID.utf8.count <= PusherLimits().userIDBytes,
            "a long id of a member, or none")
        var list = MemberList()
        list.append(data.userID, info: data.userInfo)
        let frames = [
            written { ServerEvent.memberAdded(channel, id: data.userID, info: data.userInfo, to: &$0) },
            written { ServerEvent.memberRemoved(channel, id: data.userID, to: &$0) },
            written { ServerEvent.subscriptionSucceeded(channel, members: list, to: &$0) },
        ]
        for frame in frames {
            try hold(withView(frame) { (try? JSONValue.parse($0)) != nil }, "a member told of by no JSON")
        }
        let again = withView(dataText(of: frames[0])) { try? ChannelData($0) }
        let info = data.userInfo.isEmpty ? Array("{}".utf8) : data.userInfo
        try hold(again?.userID == data.userID && again?.userInfo == info, "a member told of as another")
    }

    /// The characters of a message's `data`.
    private static func dataText(of message: [UInt8]) -> [UInt8] {
        withView(message) { text in
            guard var reader = try? JSONObjectReader(text) else { return [] }
            while let member = try? reader.next() {
                if member.isNamed("data") { return member.value.characters ?? [] }
            }
            return []
        }
    }

    private static func checkUserData(_ bytes: [UInt8], _ times: UserData.Times) throws(Violation) {
        let result = withView(bytes) { text in
            Result { () throws(UserDataError) in try UserData(text, times: times, watchlistMax: 3) }
        }
        guard case .success(let user) = result else { return }
        try hold(!user.id.isEmpty && user.id.utf8.count <= PusherLimits().userIDBytes, "a long id of a user, or none")
        try hold(times == .each || (user.issuedAt == nil) == (user.expiresAt == nil), "half of a pair of times")
        if let info = user.info {
            try hold(withView(info) { (try? JSONValue.parse($0)) != nil }, "user_info that is no JSON")
        }
        if let watchlist = user.watchlist {
            try hold(
                watchlist.ids.count <= 3 && (!watchlist.isCut || watchlist.ids.count == 3), "a watchlist cut elsewhere")
            try hold(
                watchlist.ids.allSatisfy { !$0.isEmpty && $0.utf8.count <= PusherLimits().userIDBytes },
                "a user watched that cannot be")
        }
        let text = written {
            UserData.append(id: user.id, issuedAt: user.issuedAt, expiresAt: user.expiresAt, to: &$0)
        }
        let again = withView(text) { try? UserData($0, times: times) }
        try hold(
            again?.id == user.id && again?.issuedAt == user.issuedAt && again?.expiresAt == user.expiresAt,
            "user data, said anew, is another's")
    }
}
