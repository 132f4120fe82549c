/// Every setting there is, in the order in which people are shown them.
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

    static let tlsCertificateFiles = Setting(
        "tls.certificateFiles", takes: "paths", fallback: nil,
        "PEM files, each a certificate and those between it and its root, separated by commas; the first is for clients "
            + "that name no host, or another. Read again on SIGHUP.", parse: SettingValues.paths)

    static let tlsKeyFiles = Setting(
        "tls.keyFiles", takes: "paths", fallback: nil,
        "PEM files of their private keys, without passwords, in the same order.", parse: SettingValues.paths)

    static let tlsTicketKeysFile = Setting(
        "tls.ticketKeysFile", takes: "path", fallback: nil,
        "Keys of session tickets that several hubs share, 80 random bytes each: the first seals, all open. Read again on "
            + "SIGHUP; without one, keys are random and change every 12 hours.", parse: SettingValues.text)

    static let tlsHandshakeTimeout = Setting(
        "tls.handshakeTimeout", takes: "time", fallback: "10s",
        "Time from a connection's accept to the end of its TLS handshake.",
        parse: SettingValues.duration(.milliseconds(100) ... .seconds(300)))

    static let tlsHandshakesMax = Setting(
        "limits.tlsHandshakes", takes: "count", fallback: "1024",
        "TLS handshakes under way; those of further connections wait their turn.",
        parse: SettingValues.count(1...1_000_000))

    static let tlsHandshakesWaitingMax = Setting(
        "limits.tlsHandshakesWaiting", takes: "count", fallback: "16384",
        "Connections that may wait so; further ones are closed.", parse: SettingValues.count(1...1_000_000))

    static let loops = Setting(
        "loops", takes: "count", fallback: "0", "Event loops, one thread each; 0 is one for each core.",
        parse: SettingValues.count(0...64))

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

    static let jwtSecret = Setting(
        "jwt.secret", takes: "text", fallback: nil, mask: .whole,
        "Secret of HS256 tokens, 32 bytes or more, for development. `carillon dev` makes its own."
    ) { text throws(BadValue) in
        guard text.utf8.count >= 32 else { throw BadValue("at least 32 bytes long (RFC 7518 §3.2)") }
        return text
    }

    static let jwtKeysFile = Setting(
        "jwt.keysFile", takes: "path", fallback: nil,
        "JWKS file of the public keys (ES256, EdDSA, RS256) that sign users' tokens.", parse: SettingValues.text)

    static let jwtIssuer = Setting(
        "jwt.issuer", takes: "text", fallback: nil, "Issuer (`iss`) that tokens must name.", parse: SettingValues.text)

    static let jwtAudience = Setting(
        "jwt.audience", takes: "text", fallback: nil, "Audience (`aud`) that tokens must name.",
        parse: SettingValues.text)

    static let jwtLeeway = Setting(
        "jwt.leeway", takes: "time", fallback: "30s", "Difference of clocks forgiven when a token's times are judged.",
        parse: SettingValues.duration(.zero ... .seconds(300)))

    static let activityTimeout = Setting(
        "activityTimeout", takes: "time", fallback: "120s",
        "Silence of a client after which it is probed; clients are told it.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(3600)))

    static let pongTimeout = Setting(
        "pongTimeout", takes: "time", fallback: "30s", "Time a probed client has to show life before it is closed.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(600)))

    static let handshakeTimeout = Setting(
        "handshakeTimeout", takes: "time", fallback: "10s", "Time a new connection has to send its whole request.",
        parse: SettingValues.duration(.milliseconds(100) ... .seconds(300)))

    static let messageTimeout = Setting(
        "messageTimeout", takes: "time", fallback: "30s",
        "Time from the first byte of a WebSocket message to its last before its sender is closed.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(600)))

    static let unackedTimeout = Setting(
        "unackedTimeout", takes: "time", fallback: "60s",
        "Time a client may leave what it was sent unacknowledged, or take nothing, before its connection is given up.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(3600)))

    static let messageBytesMax = Setting(
        "limits.messageBytes", takes: "bytes", fallback: "64KiB", "Largest message a client may send.",
        parse: SettingValues.bytes(1024...(16 << 20)))

    static let messageFragmentsMax = Setting(
        "limits.messageFragments", takes: "count", fallback: "1024", "Fragments of one message.",
        parse: SettingValues.count(1...1_000_000))

    static let messagesPerSecond = Setting(
        "limits.messagesPerSecond", takes: "count", fallback: "200",
        """
        Messages that one connection may send each second on the long run before it is closed, one more counted for each \
        4 KiB of one; 0 is no bound.
        """,
        parse: SettingValues.count(0...10_000))

    static let messagesBurst = Setting(
        "limits.messagesBurst", takes: "count", fallback: "2000",
        "Messages that one connection may send at once after a silence.", parse: SettingValues.count(1...1_000_000))

    static let controlFramesPerSecond = Setting(
        "limits.controlFramesPerSecond", takes: "count", fallback: "10",
        "Pings and pongs that one connection may send each second; 0 is no bound.",
        parse: SettingValues.count(0...10_000))

    static let controlFramesBurst = Setting(
        "limits.controlFramesBurst", takes: "count", fallback: "100",
        "Pings and pongs that one connection may send at once after a silence.",
        parse: SettingValues.count(1...1_000_000))

    static let requestBytesPerSecondMin = Setting(
        "limits.requestBytesPerSecond", takes: "count", fallback: "500",
        "Bytes a second that a begun request has to bring, once half of handshakeTimeout is over; 0 is no bound.",
        parse: SettingValues.count(0...1_000_000))

    static let headBytesMax = Setting(
        "limits.headBytes", takes: "bytes", fallback: "8KiB", "Largest HTTP request head.",
        parse: SettingValues.bytes(1024...(1 << 20)))

    static let bodyBytesMax = Setting(
        "limits.bodyBytes", takes: "bytes", fallback: "640KiB",
        "Largest HTTP request body: an app's largest batch has to fit, three times its size where its text is escaped.",
        parse: SettingValues.bytes((16 << 10)...(16 << 20)))

    static let channelsPerConnectionMax = Setting(
        "limits.channelsPerConnection", takes: "count", fallback: "1000", "Channels one connection may subscribe to.",
        parse: SettingValues.count(1...10_000))

    static let channelsMax = Setting(
        "limits.channels", takes: "count", fallback: "200000",
        "Ordinary channels of the whole hub, users' channels not counted; a subscribe that would make one more is refused.",
        parse: SettingValues.count(1...10_000_000))

    static let parkedSubscribesMax = Setting(
        "limits.parkedSubscribes", takes: "count", fallback: "20",
        "Subscribes to user channels that one connection may have waiting for its identity.",
        parse: SettingValues.count(1...10_000))

    static let streamsPerUserMax = Setting(
        "limits.streamsPerUser", takes: "count", fallback: "1000",
        "User channels of one user, on all its connections, of published topics; of others as many on each loop, 1,000 at least.",
        parse: SettingValues.count(1...1_000_000))

    static let connectionsMax = Setting(
        "limits.connections", takes: "count", fallback: "200000", "Connections of the whole hub.",
        parse: SettingValues.count(1...10_000_000))

    static let connectionsPerAddressMax = Setting(
        "limits.connectionsPerAddress", takes: "count", fallback: "1000",
        "Connections from one address (IPv6: one /64), loopback, unix and trustedProxies exempt; 0 is no bound.",
        parse: SettingValues.count(0...10_000_000))

    static let addressConnectsPerSecond = Setting(
        "limits.connectsPerSecond", takes: "count", fallback: "50",
        "Connections that one address may begin each second on the long run; 0 is no bound.",
        parse: SettingValues.count(0...1_000_000))

    static let addressConnectsBurst = Setting(
        "limits.connectsBurst", takes: "count", fallback: "1000",
        "Connections that one address may begin at once after a silence.",
        parse: SettingValues.count(1...1_000_000))

    static let sendQueueBytesMax = Setting(
        "limits.sendQueueBytes", takes: "bytes", fallback: "8MiB",
        "Bytes that may wait for a slow client before it is closed.",
        parse: SettingValues.bytes((16 << 10)...(256 << 20)))

    static let sendQueuesBytesMax = Setting(
        "limits.sendQueuesBytes", takes: "bytes", fallback: "256MiB",
        "Bytes that may wait for all clients together before those for whom most do are closed; divided among the loops.",
        parse: SettingValues.bytes((1 << 20)...(1 << 40)))

    static let unfinishedBytesMax = Setting(
        "limits.unfinishedBytes", takes: "bytes", fallback: "64MiB",
        "Bytes of messages and requests that have begun to come, of all clients; divided among the loops.",
        parse: SettingValues.bytes((1 << 20)...(1 << 40)))

    static let pullQueueBytesMax = Setting(
        "limits.pullQueueBytes", takes: "bytes", fallback: "1MiB",
        "Bytes that may wait for a slow client before it gets user channels by pages; half of sendQueueBytes at most.",
        parse: SettingValues.bytes((16 << 10)...(64 << 20)))

    static let stalledTimeout = Setting(
        "limits.stalledTimeout", takes: "time", fallback: "60s",
        "Time in which a client that gets pages has to acknowledge a byte before it is closed.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(3600)))

    static let replayEventsMax = Setting(
        "limits.replayEvents", takes: "count", fallback: "1000",
        "Events that a client may have missed in a channel to get them; beyond, it is told to fetch a snapshot.",
        parse: SettingValues.count(1...1_000_000))

    static let windowEventsMax = Setting(
        "limits.windowEvents", takes: "count", fallback: "256",
        "Recent events of a user channel kept in memory for clients that come back.",
        parse: SettingValues.count(1...100_000))

    static let windowBytesMax = Setting(
        "limits.windowBytes", takes: "bytes", fallback: "256KiB", "Bytes of them.",
        parse: SettingValues.bytes(1024...(64 << 20)))

    static let windowTotalBytesMax = Setting(
        "limits.windowTotalBytes", takes: "bytes", fallback: "64MiB", "Bytes of those of all channels.",
        parse: SettingValues.bytes((1 << 20)...(1 << 40)))

    static let linger = Setting(
        "limits.linger", takes: "time", fallback: "30s",
        "Time that a user channel nobody is in is kept so, for the client that comes back.",
        parse: SettingValues.duration(.zero ... .seconds(3600)))

    static let userActionsPerSecond = Setting(
        "limits.actionsPerSecond", takes: "count", fallback: "100",
        "Actions that one user may send each second on the long run; 0 is no bound.",
        parse: SettingValues.count(0...1_000_000))

    static let userActionsBurst = Setting(
        "limits.actionsBurst", takes: "count", fallback: "1000",
        "Actions that one user may send at once after a silence.", parse: SettingValues.count(1...1_000_000))

    static let deviceActionsPerSecond = Setting(
        "limits.deviceActionsPerSecond", takes: "count", fallback: "50",
        "The same of one device, where actions name theirs; 0 is no bound.",
        parse: SettingValues.count(0...1_000_000))

    static let deviceActionsBurst = Setting(
        "limits.deviceActionsBurst", takes: "count", fallback: "500",
        "Actions that one device may send at once after a silence.", parse: SettingValues.count(1...1_000_000))

    static let leaveGrace = Setting(
        "presence.leaveGrace", takes: "time", fallback: "3s",
        "Time that a user whose connection broke is still a member, and online to those who watch.",
        parse: SettingValues.duration(.zero ... .seconds(300)))

    static let cacheTime = Setting(
        "cache.ttl", takes: "time", fallback: "30m", "Time that a cache channel keeps its last event.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(86_400)))

    static let cacheBytesMax = Setting(
        "cache.bytes", takes: "bytes", fallback: "64MiB",
        "Bytes of the events that cache channels keep; with more, the app that has most loses its oldest, but none its "
            + "last one. Divided among the loops.",
        parse: SettingValues.bytes(0...(1 << 40)))

    static let webhooksAllowPrivate = Setting(
        "webhooks.allowPrivate", takes: "true or false", fallback: "false", developmentFallback: "true",
        "Send webhooks to addresses that are not of the public internet too: this machine's, private networks'.",
        parse: SettingValues.flag)

    static let webhooksCAFile = Setting(
        "webhooks.caFile", takes: "path", fallback: nil,
        "PEM file of the certificates that webhooks' receivers are judged by, in place of the system's.",
        parse: SettingValues.text)

    static let webhookLeaveGrace = Setting(
        "webhooks.leaveGrace", takes: "time", fallback: "3s",
        "Time after which webhooks tell that a user has left, or everybody, if nobody is back by then.",
        parse: SettingValues.duration(.zero ... .seconds(300)))

    static let webhookQueueEventsMax = Setting(
        "webhooks.queueEvents", takes: "count", fallback: "10000",
        "Events of one kind that may wait for one webhook; further ones are dropped, and counted.",
        parse: SettingValues.count(1...1_000_000))

    static let webhookQueueBytesMax = Setting(
        "webhooks.queueBytes", takes: "bytes", fallback: "64MiB",
        "Bytes of the events that may wait for all webhooks; beyond, the webhook that holds most of one kind loses its last.",
        parse: SettingValues.bytes((1 << 20)...(1 << 40)))

    static let refuseReplays = Setting(
        "api.refuseReplays", takes: "true or false", fallback: "false",
        "Refuse a call of the HTTP API whose signature has come before, and those signed before the hub was started. "
            + "Pusher's libraries sign two equal calls of one second alike.", parse: SettingValues.flag)

    static let idempotencyKeysMax = Setting(
        "api.idempotencyKeys", takes: "count", fallback: "65536",
        "Idempotency-Keys of publishes whose answers are kept, the latest; 0: the field means nothing.",
        parse: SettingValues.count(0...10_000_000))

    static let idempotencyTime = Setting(
        "api.idempotencyTime", takes: "time", fallback: "1h", "How long they are kept.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(604_800)))

    static let compression = Setting(
        "websocket.compression", takes: "true or false", fallback: "true",
        "Compress messages for clients that offer permessage-deflate, each by itself.", parse: SettingValues.flag)

    static let compressionThreshold = Setting(
        "websocket.compressionThreshold", takes: "bytes", fallback: "512",
        "Smallest message that is compressed.", parse: SettingValues.bytes(0...(16 << 20)))

    static let compressionLevel = Setting(
        "websocket.compressionLevel", takes: "level", fallback: "2", "zlib's level: 1 is quick, 9 makes small.",
        parse: SettingValues.count(1...9))

    static let storeConnections = Setting(
        "store.connections", takes: "count", fallback: "4",
        "Connections to the database on which actions are applied.", parse: SettingValues.count(1...64))

    static let storeQueryConnections = Setting(
        "store.queryConnections", takes: "count", fallback: "2",
        "Connections to the database on which snapshots are read.", parse: SettingValues.count(1...16))

    static let storeLockTimeout = Setting(
        "store.lockTimeout", takes: "time", fallback: "300ms",
        "Time an action waits for rows that another writer has locked, before its device is told to send it again.",
        parse: SettingValues.duration(.milliseconds(10) ... .seconds(5)))

    static let storeRetainEvents = Setting(
        "store.retainEvents", takes: "days", fallback: "7",
        "Days after which events are deleted, in the hour that follows; 0 leaves that to a job of yours.",
        parse: SettingValues.count(0...3650))

    static let pollInterval = Setting(
        "feed.pollInterval", takes: "time", fallback: "1.5s",
        "The database is asked this often even if no notification came.",
        parse: SettingValues.duration(.milliseconds(100) ... .seconds(60)))

    static let positionCheckInterval = Setting(
        "feed.positionCheckInterval", takes: "time", fallback: "30s",
        "In this time every watched stream is compared with the database once.",
        parse: SettingValues.duration(.seconds(1) ... .seconds(3600)))

    static let heartbeatInterval = Setting(
        "feed.heartbeatInterval", takes: "time", fallback: "10s", "How often the listening connection is checked.",
        parse: SettingValues.duration(.milliseconds(100) ... .seconds(600)))

    static let heartbeatTimeout = Setting(
        "feed.heartbeatTimeout", takes: "time", fallback: "5s",
        "Time that check may take before the connection is made anew.",
        parse: SettingValues.duration(.milliseconds(100) ... .seconds(600)))

    static let drainPause = Setting(
        "drainPause", takes: "time", fallback: "0s",
        "Time for which a hub that is told to end serves on, but is not ready, so that balancers send it nobody new.",
        parse: SettingValues.duration(.zero ... .seconds(600)))

    static let operationsListen = Setting(
        "operations.listen", takes: "HOST:PORT or off", fallback: "127.0.0.1:9601",
        developmentFallback: "127.0.0.1:0",
        "Address and port of /livez, /readyz and /metrics, which need no credentials: a private one. off: none."
    ) { text throws(BadValue) in try OperationsAddress(text) }

    static let logLevel = Setting(
        "log.level", takes: "level", fallback: "info", "trace, debug, info, notice, warning, error or critical.",
        parse: SettingValues.choice(LogLevelName.self))

    static let logFormat = Setting(
        "log.format", takes: "format", fallback: "auto",
        "text for people, json for machines; auto is text on a terminal, else json.",
        parse: SettingValues.choice(LogFormat.self))

    static let strictProtocol = Setting(
        "strictProtocol", takes: "true or false", fallback: "false",
        "Refuse clients that do not name a protocol version, as Pusher does (4008).", parse: SettingValues.flag)

    /// All rows.
    static let rows: [SettingRow] = [
        listen.row, unixSocketMode.row, trustedProxies.row, loops.row, apps.row, databaseURL.row, databaseApp.row,
        allowedOrigins.row, tlsCertificateFiles.row, tlsKeyFiles.row, tlsTicketKeysFile.row, tlsHandshakeTimeout.row,
        jwtSecret.row, jwtKeysFile.row, jwtIssuer.row, jwtAudience.row, jwtLeeway.row,
        activityTimeout.row, pongTimeout.row, handshakeTimeout.row, messageTimeout.row, unackedTimeout.row,
        messageBytesMax.row, messageFragmentsMax.row, messagesPerSecond.row, messagesBurst.row,
        controlFramesPerSecond.row, controlFramesBurst.row, headBytesMax.row, bodyBytesMax.row,
        requestBytesPerSecondMin.row,
        channelsPerConnectionMax.row, channelsMax.row, parkedSubscribesMax.row, streamsPerUserMax.row,
        connectionsMax.row, connectionsPerAddressMax.row, addressConnectsPerSecond.row,
        addressConnectsBurst.row, tlsHandshakesMax.row, tlsHandshakesWaitingMax.row, sendQueueBytesMax.row,
        sendQueuesBytesMax.row, unfinishedBytesMax.row,
        pullQueueBytesMax.row, stalledTimeout.row, replayEventsMax.row,
        windowEventsMax.row, windowBytesMax.row, windowTotalBytesMax.row, linger.row,
        userActionsPerSecond.row, userActionsBurst.row, deviceActionsPerSecond.row, deviceActionsBurst.row,
        leaveGrace.row, cacheTime.row, cacheBytesMax.row,
        webhooksAllowPrivate.row, webhooksCAFile.row, webhookLeaveGrace.row, webhookQueueEventsMax.row,
        webhookQueueBytesMax.row,
        refuseReplays.row, idempotencyKeysMax.row, idempotencyTime.row,
        compression.row, compressionThreshold.row, compressionLevel.row,
        storeConnections.row, storeQueryConnections.row, storeLockTimeout.row, storeRetainEvents.row,
        pollInterval.row, positionCheckInterval.row, heartbeatInterval.row, heartbeatTimeout.row,
        operationsListen.row, drainPause.row, logLevel.row, logFormat.row, strictProtocol.row,
    ]

    /// Names the configuration file; not itself a key of it.
    static let fileOption = "--config"
    /// The variable that names the configuration file.
    static let fileEnvironment = "CARILLON_CONFIG"

    #if DEBUG
    /// The variable that ends the hub in the middle of an action, for tests of crashes: `after-commit:3`.
    static let failpointEnvironment = "CARILLON_FAILPOINT"
    #endif
}
