import FoundationEssentials
import Glibc
import Logging

/// The names of log levels in settings.
enum LogLevelName: String, Sendable, CaseIterable {
    case trace, debug, info, notice, warning, error, critical

    var level: Logger.Level { Logger.Level(rawValue: rawValue) ?? .info }
}

/// The format of log lines.
enum LogFormat: String, Sendable, CaseIterable {
    /// `text` on a terminal, otherwise `json`.
    case auto
    case text, json
}

/// A swift-log handler that writes one line for each event to standard error.
///
/// Callers log ids, kinds and sizes; never payloads, tokens or user ids. Only the console names the user whose payload an
/// operator looks at, or whose connections are ended.
struct LogOutput: LogHandler {
    /// The style of lines: coloured for a terminal, plain, or JSON.
    enum Style: Sendable {
        case colour, plain, json

        /// The style for a format, given what standard error is.
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

    /// - Parameter write: takes a line without its line end; standard error by default.
    init(
        label: String, level: Logger.Level, style: Style,
        write: @escaping @Sendable (String) -> Void = { complain($0) }
    ) {
        self.label = label
        self.logLevel = level
        self.style = style
        self.write = write
    }

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
