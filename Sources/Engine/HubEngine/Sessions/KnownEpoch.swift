import Bytes
import Sync

/// The epoch that a loop was told of last. Nearly all positions are of it.
struct KnownEpoch {
    /// As the feed gave it.
    private var told: Epoch?
    /// The same, made here: all loops share the feed's, and would count their references to it by turns.
    private var own: Epoch?

    /// A position of that epoch came from the feed.
    @inline(__always) mutating func came(_ epoch: Epoch) {
        if told?.isCopy(of: epoch) != true { changed(to: epoch) }
    }

    private mutating func changed(to epoch: Epoch) {
        told = epoch
        if own.map({ $0 == epoch }) != true { own = Epoch(epoch.string) }
    }

    /// The epoch of that name: this one or `other`, where it is one of them.
    func epoch(named name: UnsafeRawBufferPointer, perhaps other: Epoch?) -> Epoch {
        if let other, other.isNamed(name) { return other }
        if let own, own.isNamed(name) { return own }
        return Epoch(name.string)
    }
}
