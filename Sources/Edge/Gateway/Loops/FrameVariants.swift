import Bytes
import HubEngine
import Synchronization
import WebSocket

/// The frames of messages for many receivers, plain and compressed (one form for each window), shared by all loops. The
/// first loop with a receiver for a compressed form publishes it without a lock. Of two loops at the same moment, one wins.
final class FrameVariants: Sendable {
    let plain: SharedBytes
    private let wide = AtomicLazyReference<Variant>()
    private let narrow = AtomicLazyReference<Variant>()

    init(_ plain: SharedBytes) { self.plain = plain }

    /// The frames compressed with `window`, if a receiver needed them before; the plain ones where they get no smaller.
    func frames(_ window: DeflateWindow) -> SharedBytes? {
        switch window {
        case .wide: wide.load()?.frames
        case .narrow: narrow.load()?.frames
        }
    }

    /// Publishes `frames` for receivers with that window. Returns what was published first.
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

extension FrameVariants: SharedEncoding {
    convenience init(_ messages: consuming Messages) { self.init(FrameWriter.frames(of: messages)) }

    var messages: Messages { FrameWriter.messages(of: plain) }
}

extension SharedMessages {
    /// The messages as frames.
    var variants: FrameVariants { form() }
}
