/// One setting: its names in the three sources, its syntax, its meaning, and the target of its value.
///
/// `SettingsTable` lists all settings. Parsing, `--help`, `check-config` and deploy/settings.md are derived from it; the
/// defaults are those of `Settings`.
struct Setting: Sendable {
    /// Dotted path in the file.
    let key: String
    let environment: String
    /// The command line option, with its two hyphens.
    let option: String
    /// The format of a value, for people.
    let takes: String
    let fallback: String?
    /// The default under `carillon dev` if it differs.
    let developmentFallback: String?
    /// Masks a value for display; nil shows all of it.
    let mask: (@Sendable (String) -> String)?
    let help: String
    /// The target of the value.
    let target: any PartialKeyPath<Settings> & Sendable
    /// Parses a value and stores it. The error says what is accepted.
    let read: @Sendable (String, inout Settings) throws(BadValue) -> Void

    /// - Parameters:
    ///   - environment: the variable; nil derives it from the key.
    ///   - development: the default under `carillon dev` if it differs.
    init<Value>(
        _ key: String, _ target: any WritableKeyPath<Settings, Value> & Sendable, _ form: Form<Value>,
        environment: String? = nil, development: String? = nil, mask: (@Sendable (String) -> String)? = nil,
        _ help: String
    ) {
        self.key = key
        self.environment = environment ?? Self.environmentName(of: key)
        option = Self.optionName(of: key)
        takes = form.takes
        fallback = form.text(Settings()[keyPath: target])
        developmentFallback = development
        self.mask = mask
        self.help = help
        self.target = target
        read = { text, settings throws(BadValue) in settings[keyPath: target] = try form.parse(text) }
    }

    func fallback(in profile: SettingsProfile) -> String? {
        profile == .development ? developmentFallback ?? fallback : fallback
    }

    /// `jwt.keysFile` becomes `CARILLON_JWT_KEYS_FILE`.
    static func environmentName(of key: String) -> String {
        "CARILLON_" + words(of: key).joined(separator: "_").uppercased()
    }

    /// `jwt.keysFile` becomes `--jwt-keys-file`.
    static func optionName(of key: String) -> String {
        "--" + words(of: key).joined(separator: "-").lowercased()
    }

    /// Splits at dots and before a capital that follows a lower-case letter, so `databaseURL` is two words.
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

/// Why a setting's text is invalid, and what would be valid.
struct BadValue: Error {
    /// Completes the sentence "… must be".
    let mustBe: String
    /// The part of the value at fault, for people; nil for all of it.
    let part: String?
    /// Further parts at fault.
    private(set) var others: [BadValue] = []

    init(_ mustBe: String, of part: String? = nil) {
        self.mustBe = mustBe
        self.part = part
    }

    /// All of one value.
    ///
    /// - Parameter all: not empty.
    init(all: [BadValue]) {
        self = all[0]
        others = Array(all.dropFirst())
    }

    /// This one and the others, each by itself.
    var all: [BadValue] { [BadValue(mustBe, of: part)] + others }
}

/// Collects what is wrong in the parts of one value.
struct BadValues {
    private(set) var all: [BadValue] = []

    /// Reads a part, and goes on if it is bad. Whether it was good.
    @discardableResult mutating func collect(_ read: () throws(BadValue) -> Void) -> Bool {
        do throws(BadValue) {
            try read()
            return true
        } catch {
            all += error.all
            return false
        }
    }

    /// - Throws: all that was collected.
    func end() throws(BadValue) {
        if !all.isEmpty { throw BadValue(all: all) }
    }
}
