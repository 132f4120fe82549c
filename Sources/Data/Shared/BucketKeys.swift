/// Where the buckets of shared state lie in Redis: all keys of one begin with the same prefix, and its hash tag puts them
/// into one slot (Redis, "Redis cluster specification", "Hash tags").
package struct BucketKeys: Sendable, Equatable {
    /// Of the keys and what they hold. A hub of another schema has other keys.
    package static let schema = 1
    /// Slots of a cluster.
    static let slots = 16_384

    /// What the keys of each bucket begin with.
    package let prefixes: [String]

    /// - Parameters:
    ///   - count: of buckets, 1 to `slots`. Their slots lie equally far apart, so that nodes get equal shares.
    ///   - name: of the hubs that share them.
    package init(count: Int, of name: String = "carillon") {
        var tags = [String?](repeating: nil, count: count)
        var (left, candidate) = (count, 0)
        while left > 0 {
            let tag = String(candidate)
            let bucket = Self.slot(of: tag) * count / Self.slots
            if tags[bucket] == nil {
                tags[bucket] = tag
                left -= 1
            }
            candidate += 1
        }
        prefixes = tags.map { "\(name):\(Self.schema):{\($0 ?? "")}:" }
    }

    /// The slot of a hash tag: CRC16 (XMODEM) of it.
    static func slot(of tag: String) -> Int {
        var crc: UInt16 = 0
        for byte in tag.utf8 {
            crc ^= UInt16(byte) << 8
            for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ 0x1021 }
        }
        return Int(crc) % slots
    }
}
