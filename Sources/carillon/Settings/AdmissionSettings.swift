/// How many connections there may be, and how fast they may come.
enum AdmissionSettings {
    static let connectionsMax = Setting.count(
        "limits.connections", "200000", 1...10_000_000, "Connections of the whole hub.")

    static let connectionsPerAddressMax = Setting.count(
        "limits.connectionsPerAddress", "1000", 0...10_000_000,
        "Connections from one address (IPv6: one /64), loopback, unix and trustedProxies exempt; 0 is no bound.")

    static let addressConnectsPerSecond = Setting.count(
        "limits.connectsPerSecond", "50", 0...1_000_000,
        "Connections that one address may begin each second on the long run; 0 is no bound.")

    static let addressConnectsBurst = Setting.count(
        "limits.connectsBurst", "1000", 1...1_000_000,
        "Connections that one address may begin at once after a silence.")

    static let tlsHandshakesMax = Setting.count(
        "limits.tlsHandshakes", "1024", 1...1_000_000,
        "TLS handshakes under way; those of further connections wait their turn.")

    static let tlsHandshakesWaitingMax = Setting.count(
        "limits.tlsHandshakesWaiting", "16384", 1...1_000_000,
        "Connections that may wait so; further ones are closed.")

    static let rows = [
        connectionsMax.row, connectionsPerAddressMax.row, addressConnectsPerSecond.row, addressConnectsBurst.row,
        tlsHandshakesMax.row, tlsHandshakesWaitingMax.row,
    ]
}
