import Pusher

/// One of the parts into which the channels and users of all hubs are divided: what is shared of one stands in its
/// bucket. By a fixed hash, the same in every process and version.
package struct ChannelBucket: Hashable, Sendable {
    /// 0 to the number of buckets - 1.
    package let number: Int

    /// The bucket of the channel, in the app of that id, of `count` buckets: FNV-1a of both (draft-eastlake-fnv §2), folded.
    package init(_ name: ChannelName, ofApp id: String, of count: Int) {
        let hash = Self.hash(name.string, ofApp: id)
        number = Int((hash ^ hash >> 32) & 0xFFFF_FFFF) % count
    }

    /// The bucket of users at that place, of `count` buckets. By ranges, as `UserPart`: users of a part are together.
    package init(ofUserAt place: UInt64, of count: Int) { number = UserPart(of: place, count: count).number }

    /// By FNV-1a: it does not change from one process or version to another.
    static func hash(_ text: String, ofApp id: String) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        func add(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        for byte in id.utf8 { add(byte) }
        add(0)
        for byte in text.utf8 { add(byte) }
        return hash
    }
}
