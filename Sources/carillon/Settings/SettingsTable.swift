/// Every setting there is, in the order in which people are shown them. Those of one subject stand with it, such as
/// `TokenSettings`; here is what concerns the hub as a whole.
///
/// Sizes are in bytes, times are spans such as `30s`. A limit is the largest number allowed, not the first refused.
enum SettingsTable {
    static let listen = Setting(
        "listen", takes: "HOST:PORT,…", fallback: "127.0.0.1:6001",
        "Where clients connect: addresses with ports (IPv6 in brackets; tls: before it for TLS) and unix:/PATH, separated "
            + "by commas.",
        parse: Listener.list)

    static let unixSocketMode = Setting(
        "unixSocketMode", takes: "octal", fallback: "0660",
        "Permissions of the unix-domain sockets in `listen`; a user who may write to one may connect."
    ) { text throws(BadValue) in
        guard let mode = UInt32(text, radix: 8), mode <= 0o777, mode & 0o600 == 0o600 else {
            throw BadValue("an octal number from 0600 to 0777 that lets the hub's user read and write, such as 0660")
        }
        return mode
    }

    static let trustedProxies = Setting(
        "trustedProxies", takes: "addresses", fallback: "",
        "Proxies whose X-Forwarded-For is believed: addresses, ranges such as 10.0.0.0/8, and unix, separated by commas.",
        parse: SettingValues.peers)

    static let loops = Setting.count(
        "loops", "0", 0...64, "Event loops, one thread each; 0 is one for each core.")

    static let apps = Setting(
        "apps", takes: "JSON array", fallback: nil,
        developmentFallback: #"[{"id":"1","key":"carillon-key","secret":"carillon-secret","clientEvents":true,"#
            + #""subscriptionCounts":true,"watchlists":true}]"#,
        mask: .applicationSecrets,
        "Applications served: id, key and secret of each, and more (see Apps). Read again on SIGHUP.",
        parse: ApplicationSettings.list)

    static let databaseURL = Setting(
        "databaseURL", environment: "DATABASE_URL", takes: "connection string", fallback: nil, mask: .password,
        "PostgreSQL database whose changes are published; without one the hub is a plain Pusher server.",
        parse: SettingValues.database)

    static let databaseApp = Setting(
        "databaseApp", takes: "id", fallback: nil,
        "Application to whose users the database belongs; needed only with several.", parse: SettingValues.text)

    static let allowedOrigins = Setting(
        "allowedOrigins", takes: "origins", fallback: "*",
        "Origins of web pages that may connect, separated by commas; * is any. Clients without an origin always may.",
        parse: SettingValues.origins)

    static let operationsListen = Setting(
        "operations.listen", takes: "HOST:PORT or off", fallback: "127.0.0.1:9601",
        developmentFallback: "127.0.0.1:0",
        "Address and port of /livez, /readyz and /metrics, which need no credentials: a private one. off: none."
    ) { text throws(BadValue) in try OperationsAddress(text) }

    static let drainPause = Setting.time(
        "drainPause", "0s", .zero ... .seconds(600),
        "Time for which a hub that is told to end serves on, but is not ready, so that balancers send it nobody new.")

    static let logLevel = Setting(
        "log.level", takes: "level", fallback: "info", "trace, debug, info, notice, warning, error or critical.",
        parse: SettingValues.choice(LogLevelName.self))

    static let logFormat = Setting(
        "log.format", takes: "format", fallback: "auto",
        "text for people, json for machines; auto is text on a terminal, else json.",
        parse: SettingValues.choice(LogFormat.self))

    static let strictProtocol = Setting.flag(
        "strictProtocol", "false", "Refuse clients that do not name a protocol version, as Pusher does (4008).")

    /// All rows.
    static let rows: [SettingRow] = [
        [
            listen.row, unixSocketMode.row, trustedProxies.row, loops.row, apps.row, databaseURL.row, databaseApp.row,
            allowedOrigins.row,
        ],
        TLSSettings.rows, TokenSettings.rows, TimeoutSettings.rows, MessageSettings.rows, SubscriptionSettings.rows,
        AdmissionSettings.rows, QueueSettings.rows, ReplaySettings.rows, StoreSettings.rateRows, ChannelSettings.rows,
        WebhookSettings.rows, CallSettings.rows, MessageCompression.rows, StoreSettings.rows,
        FeedSettings.rows,
        [operationsListen.row, drainPause.row, logLevel.row, logFormat.row, strictProtocol.row],
    ].flatMap { $0 }

    /// Names the configuration file; not itself a key of it.
    static let fileOption = "--config"
    /// The variable that names the configuration file.
    static let fileEnvironment = "CARILLON_CONFIG"

    #if DEBUG
    /// The variable that ends the hub in the middle of an action, for tests of crashes: `after-commit:3`.
    static let failpointEnvironment = "CARILLON_FAILPOINT"
    #endif
}
