/// Every setting, in display order. Each is declared only here.
///
/// Sizes are in bytes, times are durations such as `30s`. A limit is the largest value allowed.
enum SettingsTable {
    static let all =
        hub + tls + tokens + timeouts + messages + channels + admission + queues + replays + edge + database + running

    /// The setting whose target is `place`.
    static subscript(_ place: any PartialKeyPath<Settings> & Sendable) -> Setting {
        guard let setting = all.first(where: { $0.place == place }) else {
            preconditionFailure("no setting's value goes to \(place)")
        }
        return setting
    }

    private static let hub: [Setting] = [
        Setting(
            "listen", \.listen, .listeners,
            """
            Where clients connect: addresses with ports (IPv6 in brackets; tls: before it for TLS) and unix:/PATH, separated \
            by commas.
            """),
        Setting(
            "unixSocketMode", \.unixSocketMode, .mode,
            "Permissions of the unix-domain sockets in `listen`; a user who may write to one may connect."),
        Setting(
            "trustedProxies", \.gateway.trustedPeers, .peers,
            "Proxies whose X-Forwarded-For is believed: addresses, ranges such as 10.0.0.0/8, and unix, separated by commas."
        ),
        Setting("loops", \.loops, .count(0...64), "Event loops, one thread each; 0 is one for each core."),
        Setting(
            "apps", \.apps, .applications,
            development: #"[{"id":"1","key":"carillon-key","secret":"carillon-secret","clientEvents":true,"#
                + #""subscriptionCounts":true,"watchlists":true}]"#,
            mask: ApplicationSettings.masked,
            "Applications served: id, key and secret of each, and more (see Apps). Read again on SIGHUP."),
        Setting(
            "databaseURL", \.databaseURL, .optional(.database), environment: "DATABASE_URL",
            mask: SettingMask.withoutPassword,
            "PostgreSQL database whose changes are published; without one the hub is a plain Pusher server."),
        Setting(
            "databaseApp", \.databaseApp, .optional(.some("id")),
            "Application to whose users the database belongs; needed only with several."),
        Setting(
            "allowedOrigins", \.gateway.origins, .origins,
            "Origins of web pages that may connect, separated by commas; * is any. Clients without an origin always may."
        ),
    ]

    private static let tls: [Setting] = [
        Setting(
            "tls.certificateFiles", \.tls.certificateFiles, .paths,
            """
            PEM files, each a certificate and those between it and its root, separated by commas; the first is for clients \
            that name no host, or another. Read again on SIGHUP.
            """),
        Setting(
            "tls.keyFiles", \.tls.keyFiles, .paths,
            "PEM files of their private keys, without passwords, in the same order."),
        Setting(
            "tls.ticketKeysFile", \.tls.ticketKeysFile, .optional(.some("path")),
            """
            Keys of session tickets that several hubs share, 80 random bytes each: the first seals, all open. Read again on \
            SIGHUP; without one, keys are random and change every 12 hours.
            """),
    ]

    private static let tokens: [Setting] = [
        Setting(
            "jwt.secret", \.jwt.secret,
            .optional(.text(bytes: 32...Int.max, mustBe: "at least 32 bytes long (RFC 7518 §3.2)")),
            mask: SettingMask.nothing,
            "Secret of HS256 tokens, 32 bytes or more, for development. `carillon dev` makes its own."),
        Setting(
            "jwt.keysFile", \.jwt.keySetFile, .optional(.some("path")),
            "JWKS file of the public keys (ES256, EdDSA, RS256) that sign users' tokens."),
        Setting("jwt.issuer", \.jwt.issuer, .optional(.some("text")), "Issuer (`iss`) that tokens must name."),
        Setting("jwt.audience", \.jwt.audience, .optional(.some("text")), "Audience (`aud`) that tokens must name."),
    ]

    private static let timeouts: [Setting] = [
        Setting(
            "activityTimeout", \.gateway.timeouts.activity, .time(.seconds(1) ... .seconds(3600)),
            "Silence of a client after which it is probed; clients are told it."),
        Setting(
            "pongTimeout", \.gateway.timeouts.pong, .time(.seconds(1) ... .seconds(600)),
            "Time a probed client has to show life before it is closed."),
        Setting(
            "handshakeTimeout", \.gateway.timeouts.handshake, .time(.milliseconds(100) ... .seconds(300)),
            "Time a new connection has for its TLS handshake, and then to send its whole request."),
        Setting(
            "unackedTimeout", \.gateway.timeouts.unacked, .time(.seconds(1) ... .seconds(3600)),
            "Time a client may leave what it was sent unacknowledged, or take nothing, before its connection is given up."
        ),
    ]

    private static let messages: [Setting] = [
        Setting(
            "limits.messageBytes", \.gateway.limits.messageBytesMax, .bytes(1024...(16 << 20)),
            "Largest message a client may send."),
        Setting(
            "limits.messagesPerSecond", \.gateway.limits.messagesPerSecond, .count(0...10_000),
            """
            Messages that one connection may send each second on the long run before it is closed, one more counted for each \
            4 KiB of one; ten times as many at once after a silence. 0 is no bound.
            """),
        Setting(
            "limits.headBytes", \.gateway.httpLimits.headBytes, .bytes(1024...(1 << 20)), "Largest HTTP request head."),
        Setting(
            "limits.bodyBytes", \.gateway.httpLimits.bodyBytes, .bytes((16 << 10)...(16 << 20)),
            "Largest HTTP request body: an app's largest batch has to fit, three times its size where its text is escaped."
        ),
        Setting(
            "limits.actionsPerSecond", \.actionsPerSecond, .count(0...1_000_000),
            """
            Actions that one user may send each second on the long run, and half as many from one device, where they name it; \
            ten times as many at once after a silence. 0 is no bound.
            """),
        Setting(
            "websocket.compression", \.gateway.compression, .compression,
            "Compress messages for clients that offer permessage-deflate, each by itself."),
        Setting(
            "strictProtocol", \.gateway.requiresProtocolVersion, .flag,
            "Refuse clients that do not name a protocol version, as Pusher does (4008)."),
    ]

    private static let channels: [Setting] = [
        Setting(
            "limits.channelsPerConnection", \.gateway.channelLimits.subscriptionsPerSessionMax, .count(1...10_000),
            "Channels one connection may subscribe to."),
        Setting(
            "limits.channels", \.gateway.channelLimits.homes.channelsMax, .count(1...10_000_000),
            "Ordinary channels of the whole hub, users' channels not counted; a subscribe that would make one more is refused."
        ),
        Setting(
            "limits.streamsPerUser", \.feed.streamsPerUserMax, .count(1...1_000_000),
            """
            User channels of one user, on all its connections, of published topics; of others as many on each loop, 1,000 at \
            least.
            """),
        Setting(
            "presence.leaveGrace", \.gateway.channelLimits.homes.leaveGrace, .time(.zero ... .seconds(300)),
            """
            Time that a user whose connection broke is still a member, and online to those who watch; and after which webhooks \
            tell that a user has left, or everybody, if nobody is back by then.
            """),
        Setting(
            "cache.ttl", \.gateway.channelLimits.homes.cacheTime, .time(.seconds(1) ... .seconds(86_400)),
            "Time that a cache channel keeps its last event."),
        Setting(
            "cache.bytes", \.gateway.channelLimits.homes.cacheBytesMax, .bytes(0...(1 << 40)),
            """
            Bytes of the events that cache channels keep; with more, the app that has most loses its oldest, but none its \
            last one. Divided among the loops.
            """),
    ]

    private static let admission: [Setting] = [
        Setting(
            "limits.connections", \.gateway.limits.connectionsMax, .count(1...10_000_000),
            "Connections of the whole hub."),
        Setting(
            "limits.connectionsPerAddress", \.gateway.limits.connectionsPerAddressMax, .bound(0...10_000_000),
            "Connections from one address (IPv6: one /64), loopback, unix and trustedProxies exempt; 0 is no bound."),
        Setting(
            "limits.connectsPerSecond", \.gateway.limits.addressConnectsPerSecond, .count(0...1_000_000),
            """
            Connections that one address may begin each second on the long run; twenty times as many at once after a \
            silence. 0 is no bound.
            """),
    ]

    private static let queues: [Setting] = [
        Setting(
            "limits.sendQueueBytes", \.gateway.limits.sendQueueBytesMax, .bytes((16 << 10)...(256 << 20)),
            "Bytes that may wait for a slow client before it is closed."),
        Setting(
            "limits.sendQueuesBytes", \.gateway.limits.sendQueuesBytesMax, .bytes((1 << 20)...(1 << 40)),
            """
            Bytes that may wait for all clients together before those for whom most do are closed; divided among the loops.
            """),
        Setting(
            "limits.unfinishedBytes", \.gateway.limits.unfinishedBytesMax, .bytes((1 << 20)...(1 << 40)),
            "Bytes of messages and requests that have begun to come, of all clients; divided among the loops."),
        Setting(
            "limits.pullQueueBytes", \.gateway.limits.pullQueueBytesMax, .bytes((16 << 10)...(64 << 20)),
            "Bytes that may wait for a slow client before it gets user channels by pages; half of sendQueueBytes at most."
        ),
    ]

    private static let replays: [Setting] = [
        Setting(
            "limits.replayEvents", \.gateway.channelLimits.streams.replayEvents, .count(1...1_000_000),
            "Events that a client may have missed in a channel to get them; beyond, it is told to fetch a snapshot."),
        Setting(
            "limits.windowTotalBytes", \.gateway.channelLimits.streams.windowTotalBytes, .bytes(0...(1 << 40)),
            """
            Bytes of the recent events of user channels, 256 and 256 KiB of each at most, kept in memory for clients that \
            come back; others are read from the database.
            """),
    ]

    private static let edge: [Setting] = [
        Setting(
            "webhooks.allowPrivate", \.webhooks.allowsPrivate, .flag, development: "true",
            "Send webhooks to addresses that are not of the public internet too: this machine's, private networks'."),
        Setting(
            "webhooks.caFile", \.webhooks.caFile, .optional(.some("path")),
            "PEM file of the certificates that webhooks' receivers are judged by, in place of the system's."),
        Setting(
            "webhooks.queueBytes", \.webhooks.limits.queueBytesMax, .bytes((1 << 20)...(1 << 40)),
            """
            Bytes of the events that may wait for all webhooks; beyond, the webhook that holds most of one kind loses its \
            last.
            """),
        Setting(
            "api.refuseReplays", \.api.refusesReplays, .flag,
            """
            Refuse a signed call, of the HTTP API or of a route of the product, whose signature has come before, and those \
            signed before the hub was started. \
            Pusher's libraries sign two equal calls of one second alike.
            """),
    ]

    private static let database: [Setting] = [
        Setting(
            "store.connections", \.store.connections, .count(1...64),
            "Connections to the database on which actions are applied; half as many, 1 to 16, are there to read snapshots."
        ),
        Setting(
            "store.lockTimeout", \.store.lockTimeout, .time(.milliseconds(10) ... .seconds(5)),
            "Time an action waits for rows that another writer has locked, before its device is told to send it again."),
        Setting(
            "store.retainEvents", \.store.retainDays, .count(0...3650, takes: "days"),
            "Days after which events are deleted, in the hour that follows; 0 leaves that to a job of yours."),
        Setting(
            "feed.pollInterval", \.feed.pollInterval, .time(.milliseconds(100) ... .seconds(60)),
            "The database is asked this often even if no notification came."),
        Setting(
            "feed.positionCheckInterval", \.feed.positionCheckInterval, .time(.seconds(1) ... .seconds(3600)),
            "In this time every watched stream is compared with the database once."),
        Setting(
            "feed.heartbeatInterval", \.feed.heartbeatInterval, .time(.milliseconds(200) ... .seconds(1200)),
            "How often the listening connection is checked; it is made anew where that takes half of this time."),
    ]

    private static let running: [Setting] = [
        Setting(
            "operations.listen", \.operations, .addressOrOff, development: "127.0.0.1:0",
            "Address and port of /livez, /readyz and /metrics, which need no credentials: a private one. off: none."),
        Setting(
            "drainPause", \.drainPause, .time(.zero ... .seconds(600)),
            "Time for which a hub that is told to end serves on, but is not ready, so that balancers send it nobody new."
        ),
        Setting(
            "log.level", \.logLevel, .choice("level"), "trace, debug, info, notice, warning, error or critical."),
        Setting(
            "log.format", \.logFormat, .choice("format"),
            "text for people, json for machines; auto is text on a terminal, else json."),
    ]
}
