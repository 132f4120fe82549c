import Bytes
import Pusher
import Sync

/// The channels that sessions of one loop are in or await, by name, and who is in them.
package final class SubscribedChannels {
    private let sessions: SessionTable
    private var ordinary: [ChannelKey: LocalChannel] = [:]
    /// The streams of the app that owns the database, by the form of their name.
    private var userStreams = KeyedTable<StreamChannel>()
    private var privateStreams = KeyedTable<StreamChannel>()

    init(_ sessions: SessionTable) {
        self.sessions = sessions
    }

    /// The channel of that stream, if a session of the loop is in it or awaits it.
    package subscript(name: StreamName) -> LocalChannel? {
        name.form == .user ? userStreams[name.stream]?.channel : privateStreams[name.stream]?.channel
    }

    /// That ordinary channel, if a session of the loop is in it or awaits it.
    package subscript(key: ChannelKey) -> LocalChannel? { ordinary[key] }

    /// Channels of the app, streams included, that sessions of the loop are in or await.
    package func count(of app: App) -> Int {
        ordinary.keys.count { $0.app == app.index }
            + (app.ownsDatabase ? userStreams.count + privateStreams.count : 0)
    }

    var streams: [LocalChannel] { [userStreams, privateStreams].flatMap { $0.entries.map(\.channel) } }

    /// The app's streams whose names begin with `prefix` and that sessions of this loop are in; stops above `max`.
    package func streams(of app: App, prefix: String, max: Int) -> [String: ChannelFacts] {
        guard app.ownsDatabase else { return [:] }
        var found: [String: ChannelFacts] = [:]
        let wanted = Array(prefix.utf8)
        // All names are written into one buffer; only matches become strings.
        var name = ByteWriter(capacity: StreamName.maximumBytes)
        for (form, table) in [(StreamForm.user, userStreams), (.privateUser, privateStreams)] {
            // Skips a form whose prefix cannot match.
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

    func insert(_ key: ChannelKey) -> LocalChannel {
        let channel = LocalChannel(.plain(key.name))
        ordinary[key] = channel
        return channel
    }

    func remove(_ key: ChannelKey) {
        ordinary[key] = nil
    }

    /// Adds the channel of a stream that has none here yet. A session enters it next.
    func insert(_ name: StreamName) -> LocalChannel {
        let channel = LocalChannel(.stream(name))
        if name.form == .user {
            _ = userStreams.insert(StreamChannel(channel: channel))
        } else {
            _ = privateStreams.insert(StreamChannel(channel: channel))
        }
        return channel
    }

    func remove(_ name: StreamName) {
        if name.form == .user { userStreams.remove(name.stream) } else { privateStreams.remove(name.stream) }
    }

    /// Removes a live subscriber from the channel. The last one moves to its index.
    func takeOut(_ index: UInt32, of channel: LocalChannel) {
        guard let moved = channel.subscribers.remove(at: Int(index)), let session = sessions[moved],
            let own = session.index(of: channel)
        else { return }
        session.subscriptions[own].standing = .live(index)
    }
}

extension LocalChannel {
    func append(_ id: SessionID) -> Subscription.Standing {
        let index = UInt32(truncatingIfNeeded: subscribers.count)
        subscribers.append(id)
        return .live(index)
    }
}
