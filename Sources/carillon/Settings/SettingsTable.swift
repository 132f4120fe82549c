/// Settings of one subject.
struct SettingGroup: Sendable {
    /// The subject, as people are shown it.
    let title: String
    let settings: [Setting]

    init(_ title: String, _ settings: [Setting]) {
        (self.title, self.settings) = (title, settings)
    }
}

/// Every setting, in display order. Each is declared only here.
///
/// Sizes are in bytes, times are durations such as `30s`. A limit is the largest value allowed.
enum SettingsTable {
    static let groups = [
        SettingGroup("The hub", hub), SettingGroup("TLS", tls), SettingGroup("Tokens of users", tokens),
        SettingGroup("Timeouts", timeouts), SettingGroup("Messages and requests", messages),
        SettingGroup("Channels", channels), SettingGroup("Number of connections", admission),
        SettingGroup("Clients that are slow", queues), SettingGroup("Resume", replays),
        SettingGroup("Webhooks and the HTTP API", edge), SettingGroup("Pushes", pushes),
        SettingGroup("PostgreSQL", database), SettingGroup("Several hubs", group),
        SettingGroup("Running", running),
    ]

    static let all = groups.flatMap(\.settings)

    /// The setting whose value goes to `target`.
    static subscript(_ target: any PartialKeyPath<Settings> & Sendable) -> Setting {
        guard let setting = all.first(where: { $0.target == target }) else {
            preconditionFailure("no setting's value goes to \(target)")
        }
        return setting
    }

    private static let hub: [Setting] = [
        Setting(
            "listen", \.listen, .listeners,
            """
            Where clients connect: addresses with ports, separated by commas. IPv6 stands in brackets. tls: before an address \
            means TLS; unix:/PATH is a unix-domain socket.
            """),
        Setting(
            "unixSocketMode", \.unixSockets.mode, .mode,
            "Permissions of the unix-domain sockets in `listen`. A user who may write to a socket may connect."),
        Setting(
            "trustedProxies", \.gateway.trustedPeers, .peers,
            "Proxies whose X-Forwarded-For is believed: addresses, ranges such as 10.0.0.0/8, and unix, separated by commas."
        ),
        Setting(
            "loops", \.gateway.loops, .count(0...64),
            "Number of event loops, each with a thread. 0: one for each core."),
        Setting(
            "apps", \.apps, .applications,
            development: #"[{"id":"1","key":"carillon-key","secret":"carillon-secret","clientEvents":true,"#
                + #""subscriptionCounts":true,"watchlists":true}]"#,
            mask: ApplicationSettings.masked,
            """
            Apps that are served, as JSON: id, key and secret of each, and more (see Apps). On SIGHUP, `carillon serve` reads \
            those of the file again, and `carillon dev` does not.
            """),
        Setting(
            "databaseURL", \.database.url, .optional(.database), environment: "DATABASE_URL",
            mask: SettingMask.withoutPassword,
            "PostgreSQL database whose changes become events. Without one, the hub is a plain Pusher server."),
        Setting(
            "databaseApp", \.database.app, .optional(.some("id")),
            "Id of the app whose users the database has. Needed only if there are several apps."),
        Setting(
            "allowedOrigins", \.gateway.origins, .origins,
            "Origins of web pages that may connect, separated by commas. *: any. Clients that send no origin always may."
        ),
    ]

    private static let tls: [Setting] = [
        Setting(
            "tls.certificateFiles", \.tls.certificateFiles, .paths,
            """
            PEM files, separated by commas. Each has a certificate, and those between it and its root. The first one serves \
            clients that name no host, or an unknown one. Read again on SIGHUP.
            """),
        Setting(
            "tls.keyFiles", \.tls.keyFiles, .paths,
            "PEM files of the private keys of these certificates, without passwords, in the same order."),
        Setting(
            "tls.ticketKeysFile", \.tls.ticketKeysFile, .optional(.some("path")),
            """
            File of the keys of session tickets that several hubs share, 80 random bytes each. The first key seals tickets, \
            all of them open tickets. Read again on SIGHUP. Without a file, keys are random and change every 12 hours.
            """),
    ]

    private static let tokens: [Setting] = [
        Setting(
            "jwt.secret", \.jwt.secret,
            .optional(.text(bytes: 32...Int.max, mustBe: "at least 32 bytes long (RFC 7518 §3.2)")),
            mask: SettingMask.nothing,
            "Secret of tokens with HS256, for development: 32 bytes or more. `carillon dev` makes one."),
        Setting(
            "jwt.keysFile", \.jwt.keySetFile, .optional(.some("path")),
            "File with the public keys (JSON Web Key Set; ES256, EdDSA, RS256) of users' tokens. Read again when it changes."
        ),
        Setting("jwt.issuer", \.jwt.issuer, .optional(.some("text")), "Issuer (`iss`) that a token must name."),
        Setting("jwt.audience", \.jwt.audience, .optional(.some("text")), "Audience (`aud`) that a token must name."),
    ]

    private static let timeouts: [Setting] = [
        Setting(
            "activityTimeout", \.gateway.timeouts.activity, .time(.seconds(1) ... .seconds(3600)),
            "If a client is silent for this time, the hub pings it. Clients are told the time."),
        Setting(
            "pongTimeout", \.gateway.timeouts.pong, .time(.seconds(1) ... .seconds(600)),
            """
            Time that a client has to answer a ping. A client that acknowledges or reads nothing of what it was sent is \
            closed after twice this time.
            """),
        Setting(
            "handshakeTimeout", \.gateway.timeouts.handshake, .time(.milliseconds(100) ... .seconds(300)),
            "Time that a new connection has for its TLS handshake, and again to send its whole request."),
    ]

    private static let messages: [Setting] = [
        Setting(
            "limits.messageBytes", \.gateway.limits.messageBytesMax, .bytes(1024...(16 << 20)),
            "Size of the largest message that a client may send."),
        Setting(
            "limits.messagesPerSecond", \.gateway.limits.messagesPerSecond, .count(0...10_000),
            """
            Messages that one connection may send each second, ten times as many at once. A connection that sends more is \
            closed. Each further 4 KiB of a message counts as another one. 0: no bound.
            """),
        Setting(
            "limits.actionsPerSecond", \.actionsPerSecond, .count(0...1_000_000),
            """
            Actions that one user may send each second, ten times as many at once. A device that its actions name may send \
            half as many. 0: no bound.
            """),
        Setting(
            "websocket.compression", \.gateway.compression, .compression,
            "Whether messages are compressed for clients that offer permessage-deflate."),
    ]

    private static let channels: [Setting] = [
        Setting(
            "limits.channelsPerConnection", \.gateway.channelLimits.subscriptionsPerSessionMax, .count(1...10_000),
            "Channels that one connection may be in."),
        Setting(
            "limits.channels", \.gateway.channelLimits.shards.channelsMax, .count(1...10_000_000),
            "Ordinary channels of the whole hub. A subscribe that would make one more is refused. Users' channels do not count."
        ),
        Setting(
            "presence.leaveGrace", \.gateway.channelLimits.shards.leaveGrace, .time(.zero ... .seconds(300)),
            """
            Time that a user whose connection broke stays a member of presence channels, and online in watchlists. Webhooks \
            tell that a user or the last subscriber has left after this time, if nobody is back.
            """),
        Setting(
            "cache.ttl", \.gateway.channelLimits.shards.cacheTime, .time(.seconds(1) ... .seconds(86_400)),
            "Time for which a cache channel keeps its last event."),
        Setting(
            "cache.bytes", \.gateway.channelLimits.shards.cacheBytesMax, .bytes(0...(1 << 40)),
            """
            Bytes of the events that all cache channels keep, divided among the loops. When it is full, the app that has \
            most loses its oldest event, unless that is its only one.
            """),
    ]

    private static let admission: [Setting] = [
        Setting(
            "limits.connections", \.gateway.admission.connectionsMax, .count(1...10_000_000),
            "Connections that the hub accepts at a time."),
        Setting(
            "limits.connectionsPerAddress", \.gateway.admission.connectionsPerAddressMax, .bound(0...10_000_000),
            "Connections from one address (IPv6: one /64). Loopback, unix and trustedProxies are exempt. 0: no bound."),
        Setting(
            "limits.connectsPerSecond", \.gateway.admission.addressConnectsPerSecond, .count(0...1_000_000),
            """
            Connections that one address may open each second, twenty times as many at once. Then ten seconds' worth wait for \
            their turn, and more are refused. 0: no bound.
            """),
        Setting(
            "limits.requestsPerSecond", \.gateway.admission.strangerRequestsPerSecond, .count(0...1_000_000),
            """
            HTTP requests without a good token or signature that one address may send each second, five times as many at \
            once. More are told 429, a second later. Only trustedProxies are exempt. 0: no bound.
            """),
    ]

    private static let queues: [Setting] = [
        Setting(
            "limits.sendQueueBytes", \.gateway.limits.sendQueueBytesMax, .bytes((16 << 10)...(256 << 20)),
            """
            Bytes that may wait for one client. With more than an eighth, it gets users' channels by pages of the log. With \
            more than all, its connection is closed.
            """),
        Setting(
            "limits.sendQueuesBytes", \.gateway.limits.sendQueuesBytesMax, .bytes((1 << 20)...(1 << 40)),
            """
            Bytes that may wait for all clients together, divided among the loops. With more, the connections with most \
            waiting are closed.
            """),
        Setting(
            "limits.unfinishedBytes", \.gateway.limits.unfinishedBytesMax, .bytes((1 << 20)...(1 << 40)),
            "Bytes of unfinished messages and requests of all clients, divided among the loops. With more, the largest are closed."
        ),
    ]

    private static let replays: [Setting] = [
        Setting(
            "limits.replayEvents", \.gateway.channelLimits.streams.replayEvents, .count(1...1_000_000),
            "Events of one channel that a client gets when it resumes. If it missed more, it is told to fetch a snapshot."
        ),
        Setting(
            "limits.windowTotalBytes", \.gateway.channelLimits.streams.windowTotalBytes, .bytes(0...(1 << 40)),
            """
            Bytes of recent events of users' channels in memory, for clients that come back: at most 256 events and 256 KiB of \
            one channel. Others are read from the database.
            """),
    ]

    private static let edge: [Setting] = [
        Setting(
            "webhooks.allowPrivate", \.webhooks.allowsPrivate, .flag, development: "true",
            "Whether webhooks may go to private networks and to this machine, too."),
        Setting(
            "webhooks.caFile", \.webhooks.caFile, .optional(.some("path")),
            "PEM file of root certificates for webhooks and pushes, in place of the system's."),
        Setting(
            "api.refuseReplays", \.api.refusesReplays, .flag,
            """
            Whether a signed call (of the HTTP API, or of a product route) is refused if its signature was seen before, or is \
            older than the hub's start. \
            Pusher's libraries sign two equal calls of one second alike.
            """),
    ]

    private static let pushes: [Setting] = [
        Setting(
            "push.apnsKey", \.push.apnsKey, .optional(.apnsKey),
            """
            The key that Apple gave you for APNs, as KEYID:TEAMID:FILE: its id, your team's id, and the file (.p8). With it, \
            devices of platform apns get pushes. Read at start only.
            """),
        Setting(
            "push.apnsURL", \.push.apnsURL, .optional(.url), mask: { SettingMask.withoutCredentials(url: $0) },
            "Where APNs is reached, in place of Apple's production and sandbox, for gateways and tests."),
        Setting(
            "push.fcmKeyFile", \.push.fcmKeyFile, .optional(.some("path")),
            "JSON file of a Firebase service account. With it, devices of platform fcm get pushes. Read at start only."),
        Setting(
            "push.webhookURL", \.push.webhookURL, .optional(.url), mask: { SettingMask.withoutCredentials(url: $0) },
            "URL of your backend that sends text messages or anything else. With it, devices of platform webhook get pushes."
        ),
        Setting(
            "push.webhookRequests", \.push.webhookRequests, .count(1...256),
            """
            Requests that may be in flight to push.webhookURL, by HTTP/1.1 each on a connection of its own. One user has at \
            most half of them.
            """),
        Setting(
            "push.showLabels", \.push.showLabels, .flag,
            "Whether pushes show a reminder's label, which may name a medication, on locked screens and to providers."),
    ]

    private static let database: [Setting] = [
        Setting(
            "store.connections", \.store.connections, .count(1...64),
            "Connections to PostgreSQL for actions. Half as many more, 1 to 16, read snapshots."
        ),
        Setting(
            "store.retainEvents", \.jobs.retainDays, .count(0...3650, takes: "days"),
            "Days after which events are deleted, within an hour. 0: this hub deletes no events, and no keys of actions."
        ),
        Setting(
            "feed.pollInterval", \.feed.pollInterval, .time(.milliseconds(100) ... .seconds(60)),
            """
            How often the hub asks the database for events if no notification comes. Within twenty times this, it compares \
            each watched channel with the database once. Within seven times this, at least 10 s, it checks the listening \
            connection.
            """),
    ]

    private static let group: [Setting] = [
        Setting(
            "redis.url", \.group.url, .optional(.redis), mask: { SettingMask.withoutCredentials(url: $0) },
            """
            Redis 7 or Valkey, through which several hubs share ordinary channels: redis://HOST:PORT, \
            redis+sentinel://HOST:PORT,HOST:PORT/SERVICE; rediss:// and rediss+sentinel:// with TLS. A user and a password \
            stand before the host (USER:PASSWORD@). Without Redis, each hub has ordinary channels of its own.
            """),
        Setting(
            "redis.name", \.group.name, .groupName,
            "What the keys in Redis begin with. Hubs with different names share nothing."),
        Setting(
            "redis.caFile", \.group.caFile, .optional(.some("path")),
            "PEM file of root certificates for Redis and its sentinels, in place of the system's."),
        Setting(
            "redis.certificateFile", \.group.certificateFile, .optional(.some("path")),
            "PEM file of the certificate that the hub shows to Redis and its sentinels."),
        Setting(
            "redis.keyFile", \.group.keyFile, .optional(.some("path")),
            "PEM file of that certificate's private key, without a password."),
    ]

    private static let running: [Setting] = [
        Setting(
            "operations.listen", \.operations, .addressOrOff, development: "127.0.0.1:0",
            "Address and port of /livez, /readyz and /metrics. They need no credentials, so choose a private address. off: none."
        ),
        Setting(
            "console.credential", \.console.credential,
            .optional(.text(bytes: 32...1024, mustBe: "32 to 1024 bytes long")), mask: SettingMask.nothing,
            """
            Secret that opens the console at /console of operations.listen. Without one there is no console; under \
            `carillon dev` browsers of this machine need none.
            """),
        Setting(
            "console.payloads", \.console.showsPayloads, .flag, development: "true",
            "Whether the console shows the data of users' events, which is health data. The log names each look."),
        Setting(
            "drainPause", \.drain.pause, .time(.zero ... .seconds(600)),
            "Time for which the hub serves on after SIGTERM, but is not ready, so that balancers send it no new clients."
        ),
        Setting(
            "drain.connectionsPerSecond", \.drain.perSecond, .count(1...1_000_000),
            """
            Connections that a drain closes each second: after drainPause, by carillon drain, or when a successor has taken \
            over.
            """),
        Setting(
            "drain.deadline", \.drain.deadline, .time(.zero ... .seconds(3600)),
            "Time that a drain may take. Then the rest is closed at once."),
        Setting(
            "control.socket", \.unixSockets.control, .optional(.socketPath),
            """
            Path of a unix-domain socket, for carillon serve --take-over and carillon drain. Only the hub's user and root may \
            use it.
            """),
        Setting(
            "log.level", \.log.level, .choice("level"),
            "Least level that is logged: trace, debug, info, notice, warning, error or critical."),
        Setting(
            "log.format", \.log.format, .choice("format"),
            "text for people, json for machines. auto: text on a terminal, otherwise json."),
    ]
}
