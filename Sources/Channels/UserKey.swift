import Bytes

/// A user of an app, as a key of tables: byte for byte, as everywhere.
package struct UserKey: Hashable, Sendable {
    package let id: String
    /// The app's index.
    package let app: Int
    /// The same only within this process.
    package let code: UInt64

    package init(_ id: String, of app: Int) {
        self.id = id
        self.app = app
        var id = id
        code = id.withUTF8 { KeyedHash.hash(UnsafeRawBufferPointer($0), seed: UInt64(truncatingIfNeeded: app)) }
    }

    package static func == (left: UserKey, right: UserKey) -> Bool {
        left.code == right.code && left.app == right.app && left.id.hasSameBytes(as: right.id)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    /// The loop that knows who of the user's connections there are, by the highest bits of the code.
    package func home(loops: Int) -> Int {
        Int(truncatingIfNeeded: code.multipliedFullWidth(by: UInt64(loops)).high)
    }
}
