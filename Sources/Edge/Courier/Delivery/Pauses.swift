import Clock

/// The pauses of lines whose requests failed, and of endpoints that may not send yet.
///
/// Invariant: a line is here exactly while it is paused, an endpoint exactly while it has a `pausedUntil`.
struct Pauses {
    /// Sorted with the latest end first. Without a line, the pause is the endpoint's.
    private var entries: [(until: Instant, endpoint: Endpoint, line: DeliveryQueue?)] = []

    /// When the first pause ends; nil if there is none.
    var nextEnd: Instant? { entries.last?.until }

    mutating func begin(_ line: DeliveryQueue, until: Instant) {
        line.endpoint.paused(line, until: until)
        insert(until, line.endpoint, line)
    }

    /// Pauses the endpoint until then; nil ends its pause.
    mutating func set(_ endpoint: Endpoint, until: Instant?) {
        guard until != endpoint.pausedUntil else { return }
        if let before = endpoint.pausedUntil { remove(before, endpoint, nil) }
        endpoint.pausedUntil = until
        if let until { insert(until, endpoint, nil) }
    }

    /// Ends the line's pause, if it has one. The line is idle then.
    mutating func end(_ line: DeliveryQueue) {
        guard case .paused(let until) = line.state else { return }
        remove(until, line.endpoint, line)
        line.endpoint.pauseEnded(line)
    }

    /// Removes one pause that is over. Without a line it was the endpoint's; a line is idle then.
    mutating func popEnded(at now: Instant) -> (endpoint: Endpoint, line: DeliveryQueue?)? {
        guard let last = entries.last, last.until <= now else { return nil }
        entries.removeLast()
        last.endpoint.pauseEnded(last.line)
        return (last.endpoint, last.line)
    }

    /// Ends the pauses that match, and returns their lines, which are idle then.
    mutating func end(where isMeant: (Endpoint, DeliveryQueue?) -> Bool) -> [DeliveryQueue] {
        var lines: [DeliveryQueue] = []
        entries.removeAll { pause in
            guard isMeant(pause.endpoint, pause.line) else { return false }
            pause.endpoint.pauseEnded(pause.line)
            if let line = pause.line { lines.append(line) }
            return true
        }
        return lines
    }

    private mutating func insert(_ until: Instant, _ endpoint: Endpoint, _ line: DeliveryQueue?) {
        entries.insert((until, endpoint, line), at: first(notAfter: until))
    }

    private mutating func remove(_ until: Instant, _ endpoint: Endpoint, _ line: DeliveryQueue?) {
        let candidates = entries[first(notAfter: until)...]
        guard let index = candidates.firstIndex(where: { $0.endpoint === endpoint && $0.line === line }) else { return }
        entries.remove(at: index)
    }

    /// The index of the first pause that ends at `until` or before.
    private func first(notAfter until: Instant) -> Int {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].until > until { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
