import Bytes
import Synchronization
import WebSocket

/// The compressed forms of one frame that many get, one for each window, shared by all loops: made by the loop that first has a
/// receiver for it, and published without a lock. Two loops that come at the same moment both make it, and one wins.
package final class FrameVariants: Sendable {
    private let wide = AtomicLazyReference<Variant>()
    private let narrow = AtomicLazyReference<Variant>()

    package init() {}

    /// The frame compressed with `window`, if another receiver had it before; the plain one where it does not get smaller.
    package func frame(_ window: DeflateWindow) -> SharedBytes? {
        switch window {
        case .wide: wide.load()?.frame
        case .narrow: narrow.load()?.frame
        }
    }

    /// Publishes `frame` as what receivers with that window get, and returns what was published first.
    package func publish(_ frame: SharedBytes, _ window: DeflateWindow) -> SharedBytes {
        switch window {
        case .wide: wide.storeIfNil(Variant(frame)).frame
        case .narrow: narrow.storeIfNil(Variant(frame)).frame
        }
    }

    private final class Variant: Sendable {
        let frame: SharedBytes

        init(_ frame: SharedBytes) { self.frame = frame }
    }
}

/// A frame that was made once for all who are sent it, one after the other.
package struct SharedFrame: Sendable {
    package let bytes: SharedBytes
    /// Where its compressed forms are kept; nil where nobody else is expected to get it.
    package let variants: FrameVariants?

    package init(_ bytes: SharedBytes, _ variants: FrameVariants? = nil) {
        self.bytes = bytes
        self.variants = variants
    }
}
