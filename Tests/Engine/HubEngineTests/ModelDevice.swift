import HubEngine
import Sync

/// A client that follows the rules of Sources/Values/Sync/README.md: it keeps a position for each channel, applies only the
/// next event, asks for missed ones after a reconnect, and takes a snapshot when told to. It complains when the hub breaks
/// its promises.
struct ModelDevice {
    struct Feed {
        var epoch: String
        var offset: Int64
        /// A resume is unanswered: events may come twice, and there may be a gap before them.
        var awaitsResumed = false
        /// A resume was sent while events arrived: some may be replayed, until the connection ends.
        var mayRepeat = false
        /// It was told that the store is unavailable, and must ask again.
        var mustAskAgain = false
        /// Unanswered resumes of this connection.
        var unanswered = 0
    }

    let loop: Int
    let slot: UInt32
    var wire: LoopWorld.Wire?
    /// Its state of each channel that it wants, kept across connections.
    var feeds: [String: Feed] = [:]
    /// Subscribed on this connection.
    var channels: Set<String> = []
    var complaints: [String] = []
    var losses: [String: Int] = [:]
    var applied = 0

    /// Processes one message.
    mutating func take(_ text: String) {
        let words = text.split(whereSeparator: { "\"\\,:{}".contains($0) }).map(String.init)
        // The words of a message: event, its name, then alternating names and values.
        guard words.count > 1 else { return complaints.append("odd: \(text)") }
        switch words[1] {
        case "pusher_internal": succeeded(words)
        case "sync": resumed(words, text)
        case "x": event(words)
        default: break
        }
    }

    private func value(_ name: String, _ words: [String]) -> String? {
        words.firstIndex(of: name).flatMap { words.indices.contains($0 + 1) ? words[$0 + 1] : nil }
    }

    private mutating func succeeded(_ words: [String]) {
        guard let channel = value("channel", words), let epoch = value("epoch", words),
            let offset = value("offset", words).flatMap({ Int64($0) })
        else { return complaints.append("odd: \(words)") }
        guard channels.contains(channel) else { return }
        // A fresh start: the snapshot is taken here. A device with a position has asked for what follows it.
        if feeds[channel] == nil { feeds[channel] = Feed(epoch: epoch, offset: offset) }
    }

    private mutating func resumed(_ words: [String], _ text: String) {
        guard let at = words.firstIndex(of: "channels"), words.indices.contains(at + 1),
            let epoch = value("epoch", words), let offset = value("offset", words).flatMap({ Int64($0) })
        else { return complaints.append("odd: \(text)") }
        let channel = words[at + 1]
        guard channels.contains(channel), var feed = feeds[channel] else { return }
        feed.awaitsResumed = false
        if value("recovered", words) == "true" {
            feed.unanswered = max(0, feed.unanswered - 1)
            if epoch != feed.epoch { complaints.append("recovered into another epoch: \(text)") }
            if offset < feed.offset { complaints.append("recovered to before \(feed.offset): \(text)") }
            if let replayed = value("replayed", words).flatMap({ Int64($0) }), !feed.mayRepeat,
                replayed != offset - feed.offset
            {
                complaints.append("from \(feed.offset): \(text)")
            }
        } else {
            let reason = value("reason", words) ?? ""
            losses[reason, default: 0] += 1
            if reason == "store_unavailable" {
                // A stock client ignores `sync:resumed`: one that asked for nothing would have lost events.
                if feed.unanswered == 0 { complaints.append("nobody asked for it: \(text)") }
                feed.unanswered = max(0, feed.unanswered - 1)
                feed.mustAskAgain = true
            } else {
                feed.epoch = epoch
                feed.offset = offset
            }
        }
        feeds[channel] = feed
    }

    private mutating func event(_ words: [String]) {
        guard let channel = value("channel", words), let data = value("data", words)?.split(separator: "/"),
            data.count == 2, let offset = Int64(data[1])
        else { return complaints.append("odd: \(words)") }
        guard channels.contains(channel) else { return }
        guard let feed = feeds[channel] else { return complaints.append("\(words) before the answer") }
        if feed.mustAskAgain { return }
        if data[0] != feed.epoch {
            complaints.append("\(channel): \(data) in \(feed.epoch)")
        } else if offset == feed.offset + 1 {
            feeds[channel]?.offset = offset
            applied += 1
        } else if offset <= feed.offset {
            if !feed.mayRepeat { complaints.append("\(channel): \(offset) again, has \(feed.offset)") }
        } else if !feed.awaitsResumed {
            complaints.append("\(channel): a hole, \(offset) after \(feed.offset)")
        }
    }
}
