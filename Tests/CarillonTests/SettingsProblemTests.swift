import Testing

@testable import Postgres
@testable import carillon

/// Invalid settings are reported at once, with their source, and without secrets.
@Suite(.timeLimit(.minutes(15)))
struct SettingsProblemTests {
    @Test(
        arguments: [
            (["--listen"], [:], ["--listen needs a value"]),
            (["--lissen", "127.0.0.1:1"], [:], ["unknown option --lissen, did you mean --listen?"]),
            (["--loops=many"], [:], ["command line --loops", "\"many\"", "loops", "from 0 to 64"]),
            ([], ["CARILLON_LISTN": "x"], ["CARILLON_LISTN=****", "did you mean CARILLON_LISTEN?"]),
            ([], ["CARILLON_LOOOPS": "4"], ["CARILLON_LOOOPS=\"4\"", "did you mean CARILLON_LOOPS?"]),
            ([], ["CARILLON_DATABASE_URL": "postgresql://u:pw@h/d"], ["CARILLON_DATABASE_URL=****"]),
            ([], ["CARILLON_LISTEN": "6001"], ["environment CARILLON_LISTEN", "\"6001\"", "HOST:PORT"]),
            ([], ["CARILLON_JWT_SECRET": "short"], ["jwt.secret", "32 bytes", "****"]),
            ([], ["CARILLON_APPS": "{}"], ["environment CARILLON_APPS", "JSON array", "****"]),
            (
                [], ["CARILLON_APPS": #"[{"id":"1","key":"k","secret":"s"},]"#],
                ["environment CARILLON_APPS", "not JSON: line 1, column 36: a comma that no member"]
            ),
            (
                [], ["CARILLON_APPS": #"[{"id":"7","key":"k","secret":"s","enabled":1}]"#],
                [#"environment CARILLON_APPS: application "7", "enabled" must be true or false"#]
            ),
            ([], ["CARILLON_CONFIG": "/nowhere.json"], ["/nowhere.json", "cannot be read"]),
            ([], ["CARILLON_ALLOWED_ORIGINS": "https://a.org/path"], ["allowedOrigins", "no path"]),
            ([], ["CARILLON_PONG_TIMEOUT": "nan"], ["pongTimeout", "30s"]),
            ([], ["CARILLON_LOG_LEVEL": "loud"], ["log.level", "trace, debug"]),
            ([], ["CARILLON_API_REFUSE_REPLAYS": "yes"], ["api.refuseReplays", "true or false"]),
            ([], ["DATABASE_URL": "mydb"], ["DATABASE_URL", "postgresql://"]),
            ([], ["DATABASE_URL": "postgresql://u:pa%ss@h/d"], ["DATABASE_URL", "libpq can read", "%25"]),
            ([], ["DATABASE_URL": "postgresql://h/d?sslmod=x"], ["DATABASE_URL", "libpq can read"]),
            ([], ["DATABASE_URL": "host=h dbnam=d"], ["DATABASE_URL", "libpq can read"]),
            (
                [], ["CARILLON_REDIS_URL": "redis://:p@ss@h"],
                ["environment CARILLON_REDIS_URL", "not shown", "write %40 for @"]
            ),
            ([], ["CARILLON_REDIS_URL": "localhost:6379"], ["redis.url", "redis://"]),
            ([], ["CARILLON_REDIS_NAME": "a:b"], ["redis.name", "letters, digits"]),
            (
                [], ["DATABASE_URL": "postgresql://carillon_hub:change-me@h/hub"],
                ["environment DATABASE_URL: ", "\"change-me\"", "put your own"]
            ),
            (
                [], ["CARILLON_APPS": #"[{"id":"1","key":"k","secret":"change-me-too"}]"#],
                ["environment CARILLON_APPS: apps has \"change-me\""]
            ),
        ] as [([String], [String: String], [String])])
    func badNamesAndValuesAreNamed(_ arguments: [String], _ environment: [String: String], _ words: [String]) throws {
        let failure = try #require(refusedSettings(arguments, environment: environment))
        #expect(failure.lines.count == 1)
        #expect(failure.status == .configuration)
        for word in words { #expect(failure.description.contains(word), "\(failure)") }
    }

    /// The password is `pq@rs` and the like; no piece of it is shown, by whatever reads it.
    @Test(arguments: [
        "postgresql://carillon_hub:pq@rs@db/hub", "postgres://carillon_hub:pq@rs@db:5432,db2/hub?sslmode=require",
        "postgresql://carillon_hub:pq/rs@db/hub", "postgresql://carillon_hub:12/rs@db/hub",
        "postgresql://carillon_hub:pq?rs@tu@db/hub", "postgresql://carillon_hub:pq#rs/tu@db/hub",
        "postgresql://carillon_hub:pqrs", "postgresql://carillon_hub:pq@rs:tu@db/hub",
        "postgresql://carillon_hub:pq@rs:tu/hub",
    ])
    func aPasswordThatIsNotEncodedIsNotShown(_ url: String) throws {
        let failure = try #require(refusedSettings(environment: ["DATABASE_URL": url]))
        #expect(failure.lines.count == 1 && failure.status == .configuration)
        #expect(failure.description.contains("environment DATABASE_URL: ") && failure.description.contains("%40 for @"))
        for piece in ["pq", "rs", "tu", "12"] { #expect(!failure.description.contains(piece), "\(failure)") }
        let error = #expect(throws: PostgresError.self) { try ConnectionParameters(url) }
        #expect(error?.message == ConnectionParameters.encodeAdvice)
    }

    @Test(arguments: [
        "postgresql://carillon_hub:p%40ss%2F@db/hub", "postgresql://carillon_hub:p:w?x#y@db:5432/hub",
        "postgresql:///hub",
        "postgresql://carillon_hub@/hub?host=/run/postgresql", "postgresql://db1:5432,db2:5433/hub",
        "postgresql://u@[::1]:5432/hub?application_name=a@b", "postgresql://[fe80::1]/hub",
        "host=db password=p@ss/word",
        "postgresql://%2Frun%2Fpostgresql/hub", "postgresql://u:p@/hub?host=%40abstract",
    ])
    func otherConnectionStringsAreTaken(_ url: String) throws {
        #expect(try effectiveSettings(environment: ["DATABASE_URL": url]).values.database.url == url)
        _ = try ConnectionParameters(url)
    }

    @Test func allProblemsOfTheAppsAreToldAtOnce() throws {
        let apps = #"""
            [{"id": "1", "key": "k", "secret": "s", "enabled": 1, "limits": {"connections": 0, "chanels": 5}},
             {"key": "k2", "secrt": "s"},
             {"id": "1", "key": "k", "secret": "s", "webhooks": [{"url": "ftp://x", "events": []}, 5]}]
            """#
        let failure = try #require(refusedSettings(environment: ["CARILLON_APPS": apps]))
        let wanted = [
            #"application "1", "enabled" must be true or false"#,
            #"application "1", limits, "chanels", must be one of the members"#,
            #"application "1", limits, "connections" must be a whole number"#,
            #"application 2, "secrt", must be one of the members"#,
            #"application 2, "id" must be there"#, #"application 2, "secret" must be there"#,
            #"application "1", webhooks 1, "url" must be such as"#,
            #"application "1", webhooks 1, "events" must be an array"#,
            #"application "1", webhooks 2 must be a JSON object"#,
            #"the id of applications must be another for each of them: two have "1""#,
            #"the key of applications must be another for each of them: "1" and "1" have "k""#,
        ]
        for words in wanted { #expect(failure.lines.contains { $0.contains(words) }, "\(words): \(failure)") }
        #expect(failure.lines.count == wanted.count, "\(failure)")
        #expect(failure.lines.allSatisfy { $0.hasPrefix("environment CARILLON_APPS: ") })
    }

    @Test func problemsBeyondTwentyAreCounted() throws {
        let apps = "[" + (1...25).map { #"{"id":"\#($0)","key":"k\#($0)","secret":""}"# }.joined(separator: ",") + "]"
        let failure = try #require(refusedSettings(environment: ["CARILLON_APPS": apps]))
        #expect(failure.lines.count == 21)
        #expect(failure.lines.last == "environment CARILLON_APPS: 5 more in apps")
    }

    @Test func portsThatAHubMayNotTakeAreToldBefore() throws {
        var settings = Settings()
        #expect(settings.lowPorts.isEmpty)
        settings.listen = try ["tls:0.0.0.0:443", "127.0.0.1:1024", "127.0.0.1:0", "unix:/run/hub.sock"].map {
            try ListenSetting($0)
        }
        settings.operations = try ListenAddress("127.0.0.1:1023")
        #expect(settings.lowPorts.count == 2)
        #expect(settings.lowPorts[0].hasPrefix("listen: 0.0.0.0:443 is a port below 1024"))
        #expect(settings.lowPorts[1].hasPrefix("operations.listen: 127.0.0.1:1023 is"))
        for words in ["AmbientCapabilities=CAP_NET_BIND_SERVICE", "carillon.socket", "--listen"] {
            #expect(settings.lowPorts[0].contains(words))
        }
    }

    @Test func noSecretIsInAnError() throws {
        let secret = "hunter2hunter2"
        for name in ["CARILLON_JWT_SECRET", "CARILLON_APPS", "DATABASE_URL", "CARILLON_JWT_SECRT", "CARILLON_PASSWORD"]
        {
            let failure = try #require(refusedSettings(environment: [name: secret]))
            #expect(!failure.description.contains(secret))
        }
        for text in [
            #"{"jwt": {"secrt": "\#(secret)"}}"#, #"{"aps": [{"id": "1", "secret": "\#(secret)"}]}"#,
            #"{"webhooks": [{"url": "https://u:\#(secret)@h/", "headers": {"A": "\#(secret)"}}]}"#,
            #"{"webhook": {"headers": {"A": "\#(secret)"}}}"#, #"{"webhook": ["https://u:\#(secret)@h/"]}"#,
            #"{"listen": [{"secret": "\#(secret)"}]}"#, #"{"loops": {"secret": "\#(secret)"}}"#,
        ] {
            try withSettingsFile(text) { path in
                let failure = try #require(refusedSettings(["--config", path]))
                #expect(!failure.description.contains(secret), "\(failure)")
            }
        }
    }

    @Test(arguments: [
        (#"{"lops": 4}"#, #"(value "4")"#), (#"{"lops": true}"#, #"(value "true")"#),
        (#"{"lops": -1.5}"#, #"(value "-1.5")"#),
        (#"{"lops": "four"}"#, "(value ****)"), (#"{"passs": 4}"#, "(value ****)"), (#"{"lops": [4]}"#, "(value ****)"),
    ])
    func onlyNumbersAndFlagsOfUnknownKeysAreShown(_ text: String, _ shown: String) throws {
        try withSettingsFile(text) { path in
            let failure = try #require(refusedSettings(["--config", path]))
            #expect(failure.description.contains(shown), "\(failure)")
        }
    }

    @Test func everyProblemIsToldAtOnce() throws {
        let failure = try #require(refusedSettings(["--loops", "-1", "--nothing"], environment: ["CARILLON_X": "1"]))
        #expect(failure.lines.count == 3)
    }

    @Test func unknownKeysOfAFileAreNamedWithTheirLine() throws {
        try withSettingsFile("{\n  \"listen\": \"127.0.0.1:1\",\n  \"jwt\": {\n    \"isuer\": \"me\"\n  }\n}") { path in
            let failure = try #require(refusedSettings(["--config", path]))
            #expect(failure.description.contains("\(path) line 4: unknown key jwt.isuer"))
            #expect(failure.description.contains("did you mean jwt.issuer?"))
        }
    }

    @Test(arguments: [
        ("[]", "not a JSON object"), ("null", "not a JSON object"), ("{", "not JSON: line 1, column 2: the text ends"),
        ("", "not JSON: line 1, column 1: the text ends"),
        ("{\n  \"loops\": 2,\n}", "not JSON: line 3, column 1: a comma that no member or value follows"),
        ("{\n  \"name é\": 02}", "not JSON: line 2, column 14: a number that JSON does not allow"),
        ("{\"loops\": 2 \"listen\": 3}", "not JSON: line 1, column 13: a character that does not belong there"),
        ("{\"loops\": 2,\n \"loops\": 3}", "not JSON: line 2, column 2: a member for the second time"),
        ("{\"apps\": [{\"id\": 1,\n  \"id\": 2}]}", "not JSON: line 2, column 3: a member for the second time"),
    ])
    func invalidJSONIsToldWithLineAndColumn(_ text: String, _ words: String) throws {
        try withSettingsFile(text) { path in
            let failure = try #require(refusedSettings(["--config", path]))
            #expect(failure.description.contains(words), "\(failure)")
            #expect(failure.description.contains(path) && failure.status == .configuration)
        }
    }

    @Test func badValuesOfAFileAreNamedWithTheirLine() throws {
        try withSettingsFile("{\n  \"loops\": 2,\n  \"listen\": \"6001\"\n}") { path in
            let failure = try #require(refusedSettings(["--config", path]))
            #expect(failure.description.hasPrefix("file \(path) line 3 listen: \"6001\" is not a value of listen"))
        }
    }

    @Test func examplesOfAFileAreRefusedWithTheirLine() throws {
        try withSettingsFile("{\n  \"apps\": [{\"id\": \"1\", \"key\": \"change-me-key\", \"secret\": \"s\"}]\n}") {
            path in
            let failure = try #require(refusedSettings(["--config", path]))
            #expect(failure.description.hasPrefix("file \(path) line 2 apps: apps has \"change-me\""), "\(failure)")
        }
    }

    @Test func variablesOfKubernetesArePassedOver() throws {
        let links = [
            "CARILLON_SERVICE_HOST": "10.0.0.1", "CARILLON_SERVICE_PORT": "6001", "CARILLON_SERVICE_PORT_WS": "6001",
            "CARILLON_PORT": "tcp://10.0.0.1:6001", "CARILLON_PORT_6001_TCP_ADDR": "10.0.0.1",
        ]
        #expect(refusedSettings(environment: links) == nil)
        #expect(refusedSettings(environment: ["CARILLON_PORTS": "1"]) != nil)
        // That of `carillon tail`.
        #expect(refusedSettings(environment: ["CARILLON_TOKEN": "a.b.c"]) == nil)
    }

    @Test func aKeySetThatIsMissingIsOfTheConfiguration() throws {
        let environment = [
            "CARILLON_APPS": #"[{"id":"1","key":"k","secret":"s"}]"#, "CARILLON_JWT_KEYS_FILE": "/no/such.json",
        ]
        let settings = try Settings(effectiveSettings(environment: environment))
        let logger = LogOutput.logger("test", level: settings.log.level, format: settings.log.format)
        let failure = #expect(throws: Failure.self) { try HubProcess.tokenVerifier(settings.jwt, logger) }
        #expect(failure?.description == "jwt.keysFile: the JWT key set /no/such.json does not exist")
        #expect(failure?.status == .configuration)
    }

    #if DEBUG
    @Test func failpointsAreRead() throws {
        let name = SettingsSources.failpointEnvironment
        #expect(refusedSettings(environment: [name: "after-commit:3"]) == nil, "no setting, and yet known")
        #expect(try HubProcess.failpoints([:]) == nil)
        #expect(try HubProcess.failpoints([name: "after-commit:3"]) != nil)
        for text in ["", "after-commit", "after-commit:0", "somewhere:1"] {
            let failure = #expect(throws: Failure.self) { try HubProcess.failpoints([name: text]) }
            #expect(failure?.description.contains("before-send") == true)
        }
    }
    #endif
}
