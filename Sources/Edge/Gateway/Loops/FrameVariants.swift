import Bytes
import Channels
import Synchronization
import WebSocket

/// The frames of messages that many get, as they are and compressed, one form for each window; shared by all loops. A compressed
/// form is made by the loop that first has a receiver for it, and published without a lock. Two loops that come at the
/// same moment both make it, and one wins.
final class FrameVariants: Sendable {
    let plain: SharedBytes
    private let wide = AtomicLazyReference<Variant>()
    private let narrow = AtomicLazyReference<Variant>()

    init(_ plain: SharedBytes) { self.plain = plain }

    /// What was compressed with `window`, if another receiver had it before; the plain frames where they do not get smaller.
    func frames(_ window: DeflateWindow) -> SharedBytes? {
        switch window {
        case .wide: wide.load()?.frames
        case .narrow: narrow.load()?.frames
        }
    }

    /// Publishes `frames` as what receivers with that window get, and returns what was published first.
    func publish(_ frames: SharedBytes, _ window: DeflateWindow) -> SharedBytes {
        switch window {
        case .wide: wide.storeIfNil(Variant(frames)).frames
        case .narrow: narrow.storeIfNil(Variant(frames)).frames
        }
    }

    private final class Variant: Sendable {
        let frames: SharedBytes

        init(_ frames: SharedBytes) { self.frames = frames }
    }
}

extension SharedMessages {
    /// The messages as this target sends them, which is the only sink of its hub.
    var variants: FrameVariants {
        unsafeDowncast(form { FrameVariants(FrameWriter.frames(of: $0)) }, to: FrameVariants.self)
    }
}
