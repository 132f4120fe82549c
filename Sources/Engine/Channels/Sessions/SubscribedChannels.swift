import Bytes
import Pusher
import Sync

/// The channels that sessions of one loop are in or await, by their names, and who is in them.
package final class SubscribedChannels {
    private let sessions: SessionTable
    private var ordinary: [ChannelKey: Channel] = [:]
    /// The streams of the app that owns the database, by the forms of their names.
    private var userStreams = KeyedTable<StreamChannel>()
    private var privateStreams = KeyedTable<StreamChannel>()

    init(_ sessions: SessionTable) {
        self.sessions = sessions
    }

    /// The channel of that name, where the loop has somebody in it or awaits somebody.
    package func named(_ name: String, of app: App) -> Channel? {
        if app.ownsDatabase, let stream = try? StreamName.parse(name) { return self[stream] }
        return ChannelName(name).flatMap { self[ChannelKey(app.index, $0)] }
    }

    /// The channel of that stream's name, where the loop has somebody in it or awaits somebody.
    package subscript(name: StreamName) -> Channel? {
        name.form == .user ? userStreams[name.stream]?.channel : privateStreams[name.stream]?.channel
    }

    /// That ordinary channel, where the loop has somebody in it or awaits somebody.
    package subscript(key: ChannelKey) -> Channel? { ordinary[key] }

    package func count(of app: App) -> Int {
        ordinary.keys.count { $0.app == app.index }
            + (app.ownsDatabase ? userStreams.count + privateStreams.count : 0)
    }

    /// The streams' channels.
    var streams: [Channel] { [userStreams, privateStreams].flatMap { $0.entries.map(\.channel) } }

    /// The streams of the app whose names begin with `prefix` and that somebody of this loop is in; not all of them where
    /// they are more than `max`.
    package func streams(of app: App, prefix: String, max: Int) -> [String: ChannelFacts] {
        guard app.ownsDatabase else { return [:] }
        var found: [String: ChannelFacts] = [:]
        let wanted = Array(prefix.utf8)
        // All names are written in one place, and only those that are meant become strings.
        var name = ByteWriter(capacity: StreamName.maximumBytes)
        for (form, table) in [(StreamForm.user, userStreams), (.privateUser, privateStreams)] {
            // Their names are written only where they may begin so.
            guard zip(form.prefix.bytes, wanted).allSatisfy(==) else { continue }
            for channel in table.entries.lazy.map(\.channel) where channel.memberCount > 0 {
                name.truncate(to: 0)
                guard channel.stream?.append(to: &name) == true, name.withUnsafeBytes({ $0.starts(with: wanted) })
                else { continue }
                var facts = ChannelFacts()
                facts.subscriptionCount = channel.memberCount
                found[name.string] = facts
                if found.count > max { return found }
            }
        }
        return found
    }

    // MARK: The table

    func insert(_ key: ChannelKey) -> Channel {
        let channel = Channel(.plain(key.name))
        ordinary[key] = channel
        return channel
    }

    func remove(_ key: ChannelKey) {
        ordinary[key] = nil
    }

    /// The channel of a stream that has none here yet; somebody enters it next.
    func insert(_ name: StreamName) -> Channel {
        let channel = Channel(.stream(name))
        if name.form == .user {
            _ = userStreams.insert(StreamChannel(channel: channel))
        } else {
            _ = privateStreams.insert(StreamChannel(channel: channel))
        }
        return channel
    }

    /// Nobody is in the stream's channel.
    func remove(_ name: StreamName) {
        if name.form == .user { userStreams.remove(name.stream) } else { privateStreams.remove(name.stream) }
    }

    /// Takes a live subscriber out of the channel; the last one takes its place.
    func takeOut(_ index: UInt32, of channel: Channel) {
        guard let moved = channel.subscribers.remove(at: Int(index)), let session = sessions[moved],
            let place = session.place(of: channel)
        else { return }
        session.subscriptions[place].standing = .live(index)
    }
}

extension Channel {
    /// Takes a live subscriber in.
    func append(_ id: SessionID) -> Subscription.Standing {
        let index = UInt32(truncatingIfNeeded: subscribers.count)
        subscribers.append(id)
        return .live(index)
    }
}
