import Bytes
import HubEngine
import Metrics
import WebSocket

/// permessage-deflate (RFC 7692) on one loop, shared by all its connections. A connection holds nothing: neither side keeps
/// its window from one message to the next.
///
/// Memory, once used: 54 KiB to compress with the wide window, 40 KiB with the narrow one, 39 KiB to decompress, and room
/// for one message each way (up to 256 KiB are kept; a received one has at most `limits.messageBytes`).
final class LoopCompression {
    private let settings: CompressionSettings
    private let metrics: CompressionMetrics
    private let deflater: FrameDeflater
    /// Made when the first connection of the loop agrees to compression.
    private(set) lazy var inflater = Inflater()

    init(_ settings: CompressionSettings, _ metrics: CompressionMetrics) {
        self.settings = settings
        self.metrics = metrics
        deflater = FrameDeflater(threshold: settings.threshold, level: settings.level)
    }

    // MARK: Out

    /// Whether some connection may want these frames compressed.
    func isWorthIt(_ frames: SharedBytes) -> Bool {
        frames.count > settings.threshold && metrics.connections.level > 0
    }

    /// Frames for many receivers, for connections with that window.
    func frames(_ variants: FrameVariants, _ window: DeflateWindow) -> SharedBytes {
        variants.frames(window) ?? variants.publish(compressed(variants.plain, window), window)
    }

    /// Frames for one connection, one or many in a block. Each that is worth it is compressed.
    func compressed(_ frames: SharedBytes, _ window: DeflateWindow) -> SharedBytes {
        guard frames.count > settings.threshold else { return frames }
        let outcome = deflater.compress(frames, window)
        metrics.count(outcome)
        return outcome.frames ?? frames
    }

    // MARK: In

    /// Input of a connection has been read: counts what was decompressed for it.
    func hasRead() {
        let tally = inflater.takeTally()
        if tally != Inflater.Tally() { metrics.count(tally) }
        inflater.trim()
    }
}

/// What is compressed, and how.
package struct CompressionSettings: Sendable, Hashable {
    /// The smallest message, in bytes, that is compressed. Compressing costs some 10 µs for 1 KiB, about as much as two
    /// sends, once for all receivers. A message of 300 bytes would save a hundred.
    package var threshold = 512
    /// zlib's level, 1 (quick) to 9 (small). Level 2 makes events of 1 to 10 KB smaller by 2 to 4 % than level 1 at the same
    /// cost. Level 6 saves 3 to 10 % more, and costs up to twice as much.
    package var level = 2

    /// The defaults.
    package init() {}
}

/// Metrics of compression, on all loops.
final class CompressionMetrics: MetricSource {
    let connections = Gauge()
    private let frames = CounterTable("result", ["smaller", "unchanged"])
    private let smaller: Counter
    private let unchanged: Counter
    private let sentPlain = Counter()
    private let sentCompressed = Counter()
    private let messages = Counter()
    private let receivedCompressed = Counter()
    private let receivedPlain = Counter()
    private let refusals = CounterTable("reason", ["too_big", "malformed", "padded"])

    init() {
        smaller = frames["smaller"]
        unchanged = frames["unchanged"]
    }

    func count(_ outcome: FrameDeflater.Outcome) {
        if outcome.incompressible > 0 { unchanged.add(outcome.incompressible) }
        guard outcome.compressed > 0 else { return }
        smaller.add(outcome.compressed)
        sentPlain.add(outcome.plainBytes)
        sentCompressed.add(outcome.compressedBytes)
    }

    func count(_ tally: Inflater.Tally) {
        messages.add(tally.messages)
        receivedCompressed.add(tally.compressedBytes)
        receivedPlain.add(tally.plainBytes)
        refusals["too_big"].add(tally.tooBig)
        refusals["malformed"].add(tally.malformed)
        refusals["padded"].add(tally.padded)
    }

    func append(to exposition: inout Exposition) {
        exposition.gauge(
            "compression_connections", "WebSockets that agreed to compression.", Double(connections.level))
        exposition.counter(
            "compressions_total", "Frames compressed, once for all their receivers, by result.", frames)
        exposition.counter(
            "compression_plain_bytes_total", "Bytes of the compressed frames before compression.", sentPlain.count)
        exposition.counter(
            "compression_compressed_bytes_total", "Bytes of the compressed frames after compression.",
            sentCompressed.count)
        exposition.counter("decompressions_total", "Messages of clients decompressed.", messages.count)
        exposition.counter(
            "decompression_compressed_bytes_total", "Bytes of the decompressed messages before decompression.",
            receivedCompressed.count)
        exposition.counter(
            "decompression_plain_bytes_total", "Bytes of the decompressed messages after decompression.",
            receivedPlain.count)
        exposition.counter(
            "decompressions_refused_total",
            "Compressed messages refused: too large once decompressed, malformed, or padded with empty blocks.",
            refusals)
    }
}
