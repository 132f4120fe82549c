import JSON

/// How far a batch of events could be applied.
enum BatchOutcome: Sendable, Equatable {
    case done
    /// An event is missing before the next one.
    case gap
    /// There is no position yet: a snapshot is needed.
    case none
}

/// One event of a channel.
struct ChannelEvent: Sendable {
    let name: String
    let data: JSONTree

    var offset: Int64? { data["_sync"]?["o"]?.integer }
}

extension Mirror {
    /// Folds events that follow the stored position, and stores the new position. Called in one transaction: killed between
    /// the two, a device would apply an event twice, or never.
    mutating func apply(_ events: [ChannelEvent], of channel: String) -> BatchOutcome {
        guard var position = positions[channel] else { return .none }
        var end = BatchOutcome.done
        let before = position
        for event in events {
            guard let offset = event.offset, offset > position.offset else { continue }
            guard offset == position.offset + 1 else {
                end = .gap
                break
            }
            let key = event.data["_sync"]?["k"]?.string
            // Texts of an action that waits for a person are not the hub's.
            let own = key.flatMap { row(key: $0) }.flatMap { $0.state == .parked ? nil : $0 }
            entities.fold(event.name, event.data, own: own)
            position.offset = offset
        }
        if position != before { put(position, of: channel) }
        return end
    }

    /// The keys of actions that the hub has answered with events of a channel: a snapshot that is asked for now has them.
    func answered(on channel: String) -> Set<String> {
        Set(actions.filter { $0.more.until?[channel] != nil }.map(\.key))
    }

    /// A snapshot that is behind what was answered before it: the hub has gone back, and those events do not come.
    private mutating func settle(
        _ topic: Topic, of channel: String, answered: Set<String>, at position: StoredPosition
    ) {
        func isBehind(_ one: StoredPosition?) -> Bool {
            one.map { $0.epoch == position.epoch && $0.offset > position.offset } ?? false
        }
        for key in answered {
            guard var row = row(key: key), isBehind(row.more.until?[channel]) else { continue }
            row.more.until?[channel] = position
            put(row)
        }
        // Nor has it the revisions that this device has made.
        if isBehind(positions[channel]) { entities.forgetOwn(topic) }
    }

    /// Writes what a snapshot says.
    mutating func put(_ snapshot: ClientSnapshot) { entities.put(snapshot) }

    /// Writes the snapshots of a topic in place of all that was there. The first was read first: what is newer in the
    /// others is known by its number. `answered`: the actions that the hub had answered when they were asked for.
    mutating func replace(
        _ topic: Topic, of channel: String, with snapshots: [ClientSnapshot], answered: Set<String> = []
    ) -> Bool {
        guard let first = snapshots.first, snapshots.allSatisfy({ $0.position.epoch == first.position.epoch }) else {
            return false
        }
        settle(topic, of: channel, answered: answered, at: first.position)
        for kind in topic.kinds { entities.clear(kind) }
        for snapshot in snapshots { put(snapshot) }
        put(first.position, of: channel)
        return true
    }

    /// Adds a snapshot of something that was not here, unless the channel has begun anew.
    mutating func add(_ snapshot: ClientSnapshot, of channel: String) {
        if positions[channel]?.epoch == snapshot.position.epoch { put(snapshot) }
    }
}
