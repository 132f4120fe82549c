/// A page of a stream's log that a home asks of the feed, and that the answer names again.
package struct StreamRead: Hashable, Sendable {
    package let stream: StreamID
    /// The serial of the home's watch of the stream: answers to an older watch are not looked at.
    package let watch: UInt32
    /// The life of the stream that the offsets belong to; a log of another life is not read.
    package let epoch: Epoch
    /// The page begins with the event behind this offset.
    package let after: Int64
    /// And goes no further than this one: what the home has handed on last. The same as `after` where no page is wanted,
    /// but an answer to whether the log has got to that offset: an empty page says that it has.
    package let upTo: Int64

    package init(stream: StreamID, watch: UInt32, epoch: Epoch, after: Int64, upTo: Int64) {
        self.stream = stream
        self.watch = watch
        self.epoch = epoch
        self.after = after
        self.upTo = upTo
    }
}

/// Why a page of a stream's log cannot be had.
package enum StreamReadFailure: Hashable, Sendable {
    /// The log does not reach back so far.
    case expired
    /// The log is of another life of the stream; a reset will follow.
    case otherEpoch
    /// The log has not got to that offset in this life of the stream.
    case ahead
    /// Too many reads wait already, or this one has failed several times.
    case busy
}
