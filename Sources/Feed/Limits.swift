/// The bounds of this target, in one place.
package enum FeedLimits {
    /// Rows of one page of the tail or of a replay, and so events of one call of the sink. Events are at most about
    /// 10 KB each (`sql/`), so a page is at most about 10 MB.
    package static let pageRows = 1_000
    /// Streams whose positions one statement reads.
    package static let positionsPerQuery = 1_000
    /// Streams watched at a time unless configured otherwise; one more is refused.
    package static let streamsMax = 1_000_000
    /// Messages that the loops may have before them; above it the feed stops reading until they have caught up.
    package static let backlogMax = 10_000
    /// Alerts of the listening connection are small, but a server may send any number in one read: of their payloads,
    /// this many bytes are compared.
    package static let probeBytes = 16
}
