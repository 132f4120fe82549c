import FoundationEssentials

/// What may be shown of a setting's value.
enum SettingMask {
    /// Stands for what is not shown.
    static let hidden = "****"

    /// A value that is none of the setting's, as it may be printed: what is no plain text may be something else misplaced,
    /// secrets and all.
    static func shown(bad text: String, of setting: Setting) -> String {
        guard setting.mask == nil, !text.contains(where: { "[{".contains($0) }) else { return hidden }
        return "\"\(text.prefix(200))\""
    }

    /// The value of a name that nobody knows: a slip of the pen may have kept a secret. Only what is a number, `true` or
    /// `false` is shown, and nothing where the name is that of a secret.
    static func shown(ofUnknown name: String, _ text: String) -> String {
        let telling = ["secret", "password", "pass", "token", "key", "url", "app", "jwt"]
        let isTelling = telling.contains(where: name.lowercased().contains)
        let isPlain = ["true", "false"].contains(text) || (text.utf8.count <= 20 && Double(text)?.isFinite == true)
        return isPlain && !isTelling ? "\"\(text)\"" : hidden
    }

    /// A URL whose user is replaced, and all behind the origin: a webhook's path is its secret, more often than not.
    static func withoutCredentials(url: String) -> String {
        guard let start = url.firstRange(of: "://")?.upperBound else { return hidden }
        let authority = url[start...].prefix { !"/?#".contains($0) }
        let rest = url[authority.endIndex...]
        var origin = String(url[..<authority.endIndex])
        if let at = authority.lastIndex(of: "@") { origin.replaceSubrange(start..<at, with: hidden) }
        return rest.isEmpty || rest == "/" ? origin + rest : origin + "/" + hidden
    }

    /// Nothing of a secret.
    static let nothing: @Sendable (String) -> String = { $0.isEmpty ? "" : hidden }

    /// A connection string whose password is replaced, in the userinfo or query of a URI and in `keyword=value` pairs.
    @Sendable static func withoutPassword(_ text: String) -> String {
        guard let schemeEnd = text.firstRange(of: "://") else {
            // Quoting rules of keyword=value strings allow spaces inside a value, so show the plainest form only.
            return text.contains("password") || text.contains("'") ? hidden : text
        }
        let rest = text[schemeEnd.upperBound...]
        guard !rest.lowercased().contains("password") else { return hidden }
        // The host begins after the LAST @ before the path: a careless password may hold one.
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard let at = authority.lastIndex(of: "@") else { return rest.contains("@") ? hidden : text }
        // A slash inside a password would have ended the authority early and left an @ behind.
        guard !rest[authority.endIndex...].contains("@") else { return hidden }
        guard let colon = authority[..<at].firstIndex(of: ":") else { return text }
        return text[..<schemeEnd.upperBound] + authority[..<colon] + ":" + hidden + rest[at...]
    }
}

extension Setting {
    /// A value as it may be printed. Of a value that cannot be read nothing is known, so nothing is shown.
    func shown(_ text: String) -> String { mask?(text) ?? text }
}
