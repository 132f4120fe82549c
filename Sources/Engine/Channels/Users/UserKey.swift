import Bytes

/// A user of an app, as a key of tables: byte for byte, as everywhere. 16 bytes, for a home keeps one for each user online.
package struct UserKey: Hashable, TableKey, Sendable {
    private let text: SharedBytes
    /// The same only within this process.
    package let code: UInt32
    private let appIndex: UInt32

    package init(_ id: String, of app: Int) {
        self.init(.copy(id), of: app)
    }

    /// The key of the user whose id has this UTF-8.
    init(_ id: SharedBytes, of app: Int) {
        text = id
        appIndex = UInt32(truncatingIfNeeded: app)
        code = UInt32(
            truncatingIfNeeded: id.withUnsafeBytes { KeyedHash.hash($0, seed: UInt64(truncatingIfNeeded: app)) })
    }

    package var id: String { text.string }
    /// The app's index.
    package var app: Int { Int(appIndex) }

    package static func == (left: UserKey, right: UserKey) -> Bool {
        left.code == right.code && left.appIndex == right.appIndex
            && (left.text === right.text
                || left.text.withUnsafeBytes { bytes in right.text.withUnsafeBytes { $0.equals(bytes) } })
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    /// The loop that knows who of the user's connections there are, by the highest bits of the code.
    package func home(loops: Int) -> Int {
        Int(truncatingIfNeeded: (UInt64(code) &* UInt64(loops)) >> 32)
    }
}
