import Bytes
import Synchronization
import WebSocket

/// The compressed forms of one broadcast frame, one for each window, shared by all loops: made by the loop that first has a
/// receiver for it, and published without a lock. Two loops that come at the same moment both make it, and one wins.
final class FrameVariants: Sendable {
    private let wide = AtomicLazyReference<Variant>()
    private let narrow = AtomicLazyReference<Variant>()

    /// The frame compressed with `window`, if another receiver had it before; the plain one where it does not get smaller.
    func frame(_ window: DeflateWindow) -> SharedBytes? {
        switch window {
        case .wide: wide.load()?.frame
        case .narrow: narrow.load()?.frame
        }
    }

    /// Publishes `frame` as what receivers with that window get, and returns what was published first.
    func publish(_ frame: SharedBytes, _ window: DeflateWindow) -> SharedBytes {
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
