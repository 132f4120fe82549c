import Bytes

/// A user of an app as a table key, compared byte for byte. 16 bytes, because a shard keeps one for each user online.
package struct UserKey: Hashable, TableKey, Sendable {
    private let text: SharedBytes
    /// A keyed hash, valid only within this process.
    package let code: UInt32
    private let appIndex: UInt32

    /// The user of the app with this index.
    package init(_ id: String, of app: Int) {
        self.init(.copy(id), of: app)
    }

    init(_ id: SharedBytes, of app: Int) {
        text = id
        appIndex = UInt32(truncatingIfNeeded: app)
        code = UInt32(
            truncatingIfNeeded: id.withUnsafeBytes { KeyedHash.hash($0, seed: UInt64(truncatingIfNeeded: app)) })
    }

    /// The user's id, as a new string.
    package var id: String { text.string }
    /// The app's index.
    package var app: Int { Int(appIndex) }

    /// By the code first: it differs for nearly all keys that differ.
    package static func == (left: UserKey, right: UserKey) -> Bool {
        left.code == right.code && left.appIndex == right.appIndex
            && (left.text === right.text
                || left.text.withUnsafeBytes { bytes in right.text.withUnsafeBytes { $0.equals(bytes) } })
    }

    /// The code is a keyed hash already.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    /// The loop that owns the user, by the highest bits of the code.
    package func shard(loops: Int) -> Int {
        Int(truncatingIfNeeded: (UInt64(code) &* UInt64(loops)) >> 32)
    }
}
