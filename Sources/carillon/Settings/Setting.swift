/// One setting: its names in the three places that it can come from, what it takes, what it means, and where its value goes.
///
/// `SettingsTable` holds all of them. The parsing, `--help`, `check-config` and the table in deploy/README.md are made of
/// that, and the defaults are those of `Settings`.
struct Setting: Sendable {
    /// Dotted path in the file.
    let key: String
    let environment: String
    /// The command line option, with its two hyphens.
    let option: String
    /// What a value looks like, for people.
    let takes: String
    /// The text of the default; nil where there is none.
    let fallback: String?
    /// The default under `carillon dev`, where it differs.
    let developmentFallback: String?
    /// What may be shown of a value; nil: all of it.
    let mask: (@Sendable (String) -> String)?
    let help: String
    /// Where the value goes.
    let place: any PartialKeyPath<Settings> & Sendable
    /// Reads the text of a value. The error says what would be accepted.
    let read: @Sendable (String, inout Settings) throws(BadValue) -> Void

    /// - Parameters:
    ///   - environment: the variable; derived from the key where nil.
    ///   - development: the default under `carillon dev`, where it differs.
    init<Value>(
        _ key: String, _ place: any WritableKeyPath<Settings, Value> & Sendable, _ form: Form<Value>,
        environment: String? = nil, development: String? = nil, mask: (@Sendable (String) -> String)? = nil,
        _ help: String
    ) {
        self.key = key
        self.environment = environment ?? Self.environmentName(of: key)
        option = Self.optionName(of: key)
        takes = form.takes
        fallback = form.text(Settings()[keyPath: place])
        developmentFallback = development
        self.mask = mask
        self.help = help
        self.place = place
        read = { text, settings throws(BadValue) in settings[keyPath: place] = try form.parse(text) }
    }

    /// The default under a profile.
    func fallback(in profile: SettingsProfile) -> String? {
        profile == .development ? developmentFallback ?? fallback : fallback
    }

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
        var words = [""]
        var previous: Character = "."
        for character in key {
            if character == "." || (character.isUppercase && previous.isLowercase) { words.append("") }
            if character != "." { words[words.count - 1].append(character) }
            previous = character
        }
        return words
    }
}

/// Why a text is no value of a setting: what would be one.
struct BadValue: Error {
    /// Completes the sentence "… must be".
    let mustBe: String
    /// Which part of the value is meant, for people; nil: all of it.
    let part: String?

    init(_ mustBe: String, of part: String? = nil) {
        self.mustBe = mustBe
        self.part = part
    }
}
