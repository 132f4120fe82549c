import Logging
import Reactor

/// Keeps logged lines: each message with its metadata, in the order of the names.
package final class KeptLines: LogHandler {
    private let lines = Locked<[String]>([])

    package init() {}

    /// All lines logged so far.
    package var all: [String] { lines.withLock { $0 } }
    package var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    package var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    package func log(event: LogEvent) {
        let fields = (event.metadata ?? [:]).map { "\($0.key)=\($0.value) " }.sorted(by: >)
        lines.withLock { $0.append("\(event.message) " + fields.joined()) }
    }
}
