import FoundationEssentials

/// Masks settings' values for display.
enum SettingMask {
    static let hidden = "****"

    /// A bad value for an error message. Hidden unless plain: it may be misplaced and hold secrets.
    static func shown(bad text: String, of setting: Setting) -> String {
        guard setting.mask == nil, !text.contains(where: { "[{".contains($0) }) else { return hidden }
        return "\"\(text.prefix(200))\""
    }

    /// The value of an unknown name. A misspelt name may hold a secret, so only numbers, `true` and `false` are shown, and
    /// nothing if the name suggests a secret.
    static func shown(ofUnknown name: String, _ text: String) -> String {
        let telling = ["secret", "password", "pass", "token", "key", "url", "app", "jwt"]
        let isTelling = telling.contains(where: name.lowercased().contains)
        let isPlain = ["true", "false"].contains(text) || (text.utf8.count <= 20 && Double(text)?.isFinite == true)
        return isPlain && !isTelling ? "\"\(text)\"" : hidden
    }

    /// A URL with its user and everything after the origin replaced: a webhook's path is often its secret.
    static func withoutCredentials(url: String) -> String {
        guard let start = url.firstRange(of: "://")?.upperBound else { return hidden }
        let authority = url[start...].prefix { !"/?#".contains($0) }
        let rest = url[authority.endIndex...]
        var origin = String(url[..<authority.endIndex])
        if let at = authority.lastIndex(of: "@") { origin.replaceSubrange(start..<at, with: hidden) }
        return rest.isEmpty || rest == "/" ? origin + rest : origin + "/" + hidden
    }

    static let nothing: @Sendable (String) -> String = { $0.isEmpty ? "" : hidden }

    /// A connection string with its password replaced: in a URI's userinfo or query, or in `keyword=value` pairs.
    @Sendable static func withoutPassword(_ text: String) -> String {
        guard let schemeEnd = text.firstRange(of: "://") else {
            // Quoting in keyword=value strings allows spaces in a value, so only the plainest form is shown.
            return text.contains("password") || text.contains("'") ? hidden : text
        }
        let rest = text[schemeEnd.upperBound...]
        guard !rest.lowercased().contains("password") else { return hidden }
        // The host begins after the LAST @ before the path: a password may contain an unescaped one.
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard let at = authority.lastIndex(of: "@") else { return rest.contains("@") ? hidden : text }
        // A slash in a password would end the authority early and leave an @ after it.
        guard !rest[authority.endIndex...].contains("@") else { return hidden }
        guard let colon = authority[..<at].firstIndex(of: ":") else { return text }
        return text[..<schemeEnd.upperBound] + authority[..<colon] + ":" + hidden + rest[at...]
    }
}

extension Setting {
    /// The value for display; the mask hides a text that it cannot parse.
    func shown(_ text: String) -> String { mask?(text) ?? text }
}
