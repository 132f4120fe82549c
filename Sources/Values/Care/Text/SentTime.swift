/// A time as a device sent it.
package struct SentTime: Sendable {
    /// The instant.
    package var instant: Timestamp
    /// Seconds by which the device's text was ahead of UTC; nil for `Z` and for milliseconds, which name no offset.
    package let utcOffset: Int?

    /// A time.
    package init(_ instant: Timestamp, utcOffset: Int? = nil) {
        self.instant = instant
        self.utcOffset = utcOffset
    }

    /// This time, or `latest` if that is earlier: the clocks of phones may be fast.
    func limited(to latest: Timestamp) -> SentTime { SentTime(min(instant, latest), utcOffset: utcOffset) }
}
