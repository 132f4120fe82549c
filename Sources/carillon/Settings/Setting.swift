/// One setting: its names in the three places it can come from, what it takes, and what it means.
///
/// `SettingsTable` holds all of them, and is the one place from which the parsing, `--help`, `check-config` and the
/// table in deploy/README.md are made.
struct Setting<Value: Sendable>: Sendable {
    let row: SettingRow
    /// Reads the text of the value. The error says what would be accepted.
    let parse: @Sendable (String) throws(BadValue) -> Value

    /// - Parameters:
    ///   - key: dotted path in the file.
    ///   - environment: the variable; derived from the key where nil.
    ///   - takes: what the value looks like, for people.
    ///   - fallback: the text of the default; nil where there is none.
    ///   - developmentFallback: the default under `carillon dev`, where it differs.
    init(
        _ key: String, environment: String? = nil, takes: String, fallback: String?,
        developmentFallback: String? = nil, mask: SettingRow.Mask = .none, _ help: String,
        parse: @escaping @Sendable (String) throws(BadValue) -> Value
    ) {
        self.row = SettingRow(
            key: key, environment: environment ?? SettingRow.environmentName(of: key),
            option: SettingRow.optionName(of: key), takes: takes, fallback: fallback,
            developmentFallback: developmentFallback, mask: mask, help: help,
            check: { text throws(BadValue) in _ = try parse(text) })
        self.parse = parse
    }
}

extension Setting<Int> {
    static func count(_ key: String, _ fallback: String, _ range: ClosedRange<Int>, _ help: String) -> Setting {
        Setting(key, takes: "count", fallback: fallback, help, parse: SettingValues.count(range))
    }

    static func bytes(_ key: String, _ fallback: String, _ range: ClosedRange<Int>, _ help: String) -> Setting {
        Setting(key, takes: "bytes", fallback: fallback, help, parse: SettingValues.bytes(range))
    }
}

extension Setting<Duration> {
    static func time(_ key: String, _ fallback: String, _ range: ClosedRange<Duration>, _ help: String) -> Setting {
        Setting(key, takes: "time", fallback: fallback, help, parse: SettingValues.duration(range))
    }
}

extension Setting<Bool> {
    static func flag(_ key: String, _ fallback: String, _ help: String) -> Setting {
        Setting(key, takes: "true or false", fallback: fallback, help, parse: SettingValues.flag)
    }
}

/// Why a text is no value of a setting: what would be one.
struct BadValue: Error {
    /// Completes the sentence "… must be".
    let mustBe: String
    /// Which part of the value it is; nil for the whole.
    let part: String?

    /// - Parameter part: which part of the value is meant, for people; nil: all of it.
    init(_ mustBe: String, of part: String? = nil) {
        self.mustBe = mustBe
        self.part = part
    }
}

/// A setting without the type of its value: a row of the table.
struct SettingRow: Sendable {
    /// How much of a value may be shown.
    enum Mask: Sendable {
        case none
        /// Nothing of it.
        case whole
        /// All but the password inside a PostgreSQL connection string.
        case password
        /// All but each application's secrets, header fields of webhooks, and users and queries of their URLs.
        case applicationSecrets
    }

    let key: String
    let environment: String
    /// The command line option, with its two hyphens.
    let option: String
    let takes: String
    let fallback: String?
    let developmentFallback: String?
    let mask: Mask
    let help: String
    let check: @Sendable (String) throws(BadValue) -> Void

    /// `jwt.keysFile` is `CARILLON_JWT_KEYS_FILE`.
    static func environmentName(of key: String) -> String {
        "CARILLON_" + words(of: key).joined(separator: "_").uppercased()
    }

    /// `jwt.keysFile` is `--jwt-keys-file`.
    static func optionName(of key: String) -> String {
        "--" + words(of: key).joined(separator: "-").lowercased()
    }

    /// Splits at dots and before a capital that follows a small letter, so that `databaseURL` is two words.
    private static func words(of key: String) -> [String] {
        var words: [String] = []
        var word = ""
        var previous: Character = "."
        for character in key {
            if character == "." || (character.isUppercase && previous.isLowercase) {
                words.append(word)
                word = ""
            }
            if character != "." { word.append(character) }
            previous = character
        }
        words.append(word)
        return words
    }
}
