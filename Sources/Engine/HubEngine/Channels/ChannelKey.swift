import Bytes
import Pusher

/// An ordinary channel of one of the hub's apps.
package struct ChannelKey: Hashable, Sendable {
    /// The app's index.
    package let app: Int
    /// The channel's name in its app.
    package let name: ChannelName
    /// A keyed hash of both.
    private let code: UInt64

    /// The channel of the app with this index.
    package init(_ app: Int, _ name: ChannelName) {
        self.app = app
        self.name = name
        var text = name.string
        code = text.withUTF8 { KeyedHash.hash(UnsafeRawBufferPointer($0), seed: UInt64(truncatingIfNeeded: app)) }
    }

    /// By the code first: it differs for nearly all keys that differ.
    package static func == (left: ChannelKey, right: ChannelKey) -> Bool {
        left.code == right.code && left.app == right.app && left.name.string == right.name.string
    }

    /// The code is a keyed hash already.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(code)
    }

    /// The standard library's tables ask for this. The code is a keyed hash already.
    package func _rawHashValue(seed: Int) -> Int {
        Int(truncatingIfNeeded: KeyedHash.mix(code, UInt64(truncatingIfNeeded: seed)))
    }

    /// The loop that owns the channel: by the highest bits, which are not the only ones its table there looks at.
    package func shard(of loops: Int) -> Int {
        Int(truncatingIfNeeded: code.multipliedFullWidth(by: UInt64(loops)).high)
    }
}
