import Identity

/// How tokens of users are verified.
enum TokenSettings {
    static let secret = Setting(
        "jwt.secret", takes: "text", fallback: nil, mask: .whole,
        "Secret of HS256 tokens, 32 bytes or more, for development. `carillon dev` makes its own."
    ) { text throws(BadValue) in
        guard text.utf8.count >= 32 else { throw BadValue("at least 32 bytes long (RFC 7518 §3.2)") }
        return text
    }

    static let keysFile = Setting(
        "jwt.keysFile", takes: "path", fallback: nil,
        "JWKS file of the public keys (ES256, EdDSA, RS256) that sign users' tokens.", parse: SettingValues.text)

    static let issuer = Setting(
        "jwt.issuer", takes: "text", fallback: nil, "Issuer (`iss`) that tokens must name.", parse: SettingValues.text)

    static let audience = Setting(
        "jwt.audience", takes: "text", fallback: nil, "Audience (`aud`) that tokens must name.",
        parse: SettingValues.text)

    static let leeway = Setting.time(
        "jwt.leeway", "30s", .zero ... .seconds(300), "Difference of clocks forgiven when a token's times are judged.")

    static let rows = [secret.row, keysFile.row, issuer.row, audience.row, leeway.row]
}

extension TokenPolicy {
    init(_ effective: EffectiveSettings) throws(Failure) {
        self.init()
        secret = try effective.value(TokenSettings.secret)
        keySetFile = try effective.value(TokenSettings.keysFile)
        issuer = try effective.value(TokenSettings.issuer)
        audience = try effective.value(TokenSettings.audience)
        leeway = try effective.required(TokenSettings.leeway)
    }
}
