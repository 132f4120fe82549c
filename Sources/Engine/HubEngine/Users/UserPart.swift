/// Where a user stands among all, by a fixed hash. Parts of all users are ranges of it, and buckets are others: a part
/// lies in few buckets, and a bucket can find the users of a part by their order.
package struct UserPlace: Hashable, Sendable {
    /// One of 2^32.
    package let number: UInt32

    /// The place of the user, of the app of that id.
    package init(_ user: UserKey, ofApp id: String) {
        var hash = ChannelBucket.hash(user.id, ofApp: id)
        // The last letters, in which most ids differ, hardly reach the highest bits: they are mixed as MurmurHash3's
        // finalizer does it.
        for factor: UInt64 in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
            hash ^= hash >> 33
            hash &*= factor
        }
        number = UInt32(truncatingIfNeeded: hash >> 32)
    }
}

/// A part of all users: a range of their places. The same in every process and version.
package struct UserPart: Hashable, Sendable {
    /// 0 to `count` - 1.
    package let number: Int
    /// How many there are: at most `Int32.max`.
    package let count: Int

    /// One of `count` parts.
    package init(_ number: Int, of count: Int) { (self.number, self.count) = (number, count) }

    /// The part of a place, of `count` parts.
    package init(of place: UInt64, count: Int) { self.init(Int((place * UInt64(count)) >> 32), of: count) }

    /// The part of a user, of `count` parts; nil for one of an app that is not known.
    init?(of user: UserKey, count: Int, _ apps: KnownApps) {
        guard let app = apps[user.app] else { return nil }
        self.init(of: UInt64(UserPlace(user, ofApp: app.id).number), count: count)
    }

    /// Its users' places.
    package var places: Range<UInt64> {
        func first(of number: Int) -> UInt64 { (UInt64(number) << 32 + UInt64(count) - 1) / UInt64(count) }
        return first(of: number)..<first(of: number + 1)
    }
}
