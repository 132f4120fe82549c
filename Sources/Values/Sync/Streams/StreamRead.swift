/// A page of a stream's log that a `StreamShard` requests from the feed. The answer repeats it.
package struct StreamRead: Hashable, Sendable {
    /// The stream whose log is read.
    package let stream: StreamID
    /// The serial of the shard's watch of the stream. Answers to an older watch are ignored.
    package let watch: UInt32
    /// The epoch of the offsets. A log of another epoch is not read.
    package let epoch: Epoch
    /// The page begins after this offset.
    package let after: Int64
    /// The page ends at this offset, the last that the shard has delivered. When it equals `after`, no page is wanted: an
    /// empty page then confirms that the log has reached the offset.
    package let upTo: Int64

    /// Events after `after`, up to `upTo`.
    package init(stream: StreamID, watch: UInt32, epoch: Epoch, after: Int64, upTo: Int64) {
        self.stream = stream
        self.watch = watch
        self.epoch = epoch
        self.after = after
        self.upTo = upTo
    }
}

/// Why a page of a stream's log is not available.
package enum StreamReadFailure: Hashable, Sendable {
    /// The log no longer contains these events.
    case expired
    /// The log has another epoch. A reset will follow.
    case otherEpoch
    /// The log has not reached this offset in this epoch.
    case ahead
    /// Too many reads wait already, or this one has failed several times.
    case busy
}
