import FoundationEssentials
import Glibc
import Logging

/// The names of log levels in settings.
enum LogLevelName: String, Sendable, CaseIterable {
    case trace, debug, info, notice, warning, error, critical

    /// The level of swift-log.
    var level: Logger.Level { Logger.Level(rawValue: rawValue) ?? .info }
}

/// How a line of the log looks.
enum LogFormat: String, Sendable, CaseIterable {
    /// `text` on a terminal, else `json`.
    case auto
    case text, json
}

/// A handler of swift-log that writes one line for each event to standard error.
///
/// Writers log ids, kinds and sizes; never payloads, tokens or user ids.
struct LogOutput: LogHandler {
    /// How lines are made: with colour for a terminal, plain, or JSON.
    enum Style: Sendable {
        case colour, plain, json

        /// The style that a format asks for, on standard error as it is.
        init(_ format: LogFormat) {
            let terminal = isatty(STDERR_FILENO) == 1
            switch format {
            case .auto: self = terminal ? .colour : .json
            case .text: self = terminal ? .colour : .plain
            case .json: self = .json
            }
        }
    }

    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel: Logger.Level
    private let label: String
    private let style: Style
    private let write: @Sendable (String) -> Void

    /// - Parameter write: takes a finished line without its end; standard error unless a test says otherwise.
    init(
        label: String, level: Logger.Level, style: Style,
        write: @escaping @Sendable (String) -> Void = { complain($0) }
    ) {
        self.label = label
        self.logLevel = level
        self.style = style
        self.write = write
    }

    /// A logger as the settings want it.
    static func logger(_ label: String, level: LogLevelName, format: LogFormat) -> Logger {
        let style = Style(format)
        return Logger(label: label) { LogOutput(label: $0, level: level.level, style: style) }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var all = metadata
        if let provided = metadataProvider?.get() { all.merge(provided) { $1 } }
        if let own = event.metadata { all.merge(own) { $1 } }
        let fields = all.sorted { $0.key < $1.key }.map { ($0.key, "\($0.value)") }
        let line = LogLine(level: event.level, label: label, message: "\(event.message)", fields: fields)
        switch style {
        case .colour: write(line.text(at: Date(), colour: true))
        case .plain: write(line.text(at: Date(), colour: false))
        case .json: write(line.json(at: Date()))
        }
    }
}
