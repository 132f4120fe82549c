import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct SettingValuesTests {
    @Test(
        arguments: [
            ("127.0.0.1:6001", "127.0.0.1", 6001, "127.0.0.1:6001"), ("[::1]:1", "::1", 1, "[::1]:1"),
            ("*:80", "0.0.0.0", 80, "0.0.0.0:80"), ("localhost:0", "localhost", 0, "localhost:0"),
            ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535, "[fe80::1%eth0]:65535"),
        ] as [(String, String, UInt16, String)])
    func readsAddresses(_ text: String, _ host: String, _ port: UInt16, _ printed: String) throws {
        let address = try ListenAddress(text)
        #expect(address == ListenAddress(host: host, port: port))
        #expect(address.description == printed)
    }

    @Test(arguments: [
        "", ":", "6001", ":6001", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:6001", "[1]:1",
        "[::1]", "a b:1", "host:-1", "host:1 ",
    ])
    func refusesAddresses(_ text: String) {
        #expect(throws: BadValue.self) { try ListenAddress(text) }
    }

    @Test(
        arguments: [
            ("30", .seconds(30)), ("30s", .seconds(30)), ("1.5s", .milliseconds(1500)), ("500ms", .milliseconds(500)),
            ("2m", .seconds(120)), ("1h", .seconds(3600)), ("0", .zero),
        ] as [(String, Duration)])
    func readsDurations(_ text: String, _ duration: Duration) {
        #expect(Form.duration(text) == duration)
    }

    @Test(arguments: ["", "s", "-1s", "nan", "inf", "0x10", "1e9", "1d", "9999999999999999999h", "1..5s", "٣s"])
    func refusesDurations(_ text: String) {
        #expect(Form.duration(text) == nil)
    }

    @Test func printsDurationsAsTheyAreRead() {
        for text in ["30s", "1500ms", "500ms", "2m", "61s", "0s"] {
            let duration = Form.duration(text)
            #expect(duration.map { Form.brief($0) } == text)
        }
    }

    @Test func boundsAreTheLargestAllowed() throws {
        let count = Form<Int>.count(1...10)
        #expect(try count.parse("1") == 1)
        #expect(try count.parse("10") == 10)
        for text in ["0", "11", "1.0", "", "99999999999999999999"] {
            #expect(throws: BadValue.self) { try count.parse(text) }
        }
        let bytes = Form<Int>.bytes(1024...(1 << 20))
        #expect(try bytes.parse("1024") == 1024)
        #expect(try bytes.parse("1MiB") == 1 << 20)
        #expect(try bytes.parse("64KiB") == 65_536)
        for text in ["1023", "1048577", "2MiB", "MiB", "1GiB", "9223372036854775807KiB"] {
            #expect(throws: BadValue.self) { try bytes.parse(text) }
        }
    }

    @Test(arguments: [
        #"[{"id":"1","key":"k"}]"#, #"[{"id":"1","key":"k","secret":""}]"#,
        #"[{"id":"1","key":"k","secret":"s","x":1}]"#,
        #"[{"id":"1","key":"k","secret":"s"},{"id":"1","key":"l","secret":"s"}]"#,
        #"[{"id":"1","key":"k","secret":"s"},{"id":"2","key":"k","secret":"s"}]"#,
        #"[{"id":"1/2","key":"k","secret":"s"}]"#, #"[{"id":"1","key":"a:b","secret":"s"}]"#, "1", "[1]", "",
    ])
    func refusesApplications(_ text: String) {
        #expect(throws: BadValue.self) { try ApplicationSettings.list(text) }
    }

    @Test func limitsTheNumberOfApplications() throws {
        func list(_ count: Int) -> String {
            "[" + (0..<count).map { #"{"id":"\#($0)","key":"k\#($0)","secret":"s"}"# }.joined(separator: ",") + "]"
        }
        #expect(try ApplicationSettings.list(list(ApplicationSettings.countMax)).count == ApplicationSettings.countMax)
        #expect(throws: BadValue.self) { try ApplicationSettings.list(list(ApplicationSettings.countMax + 1)) }
    }

    @Test(arguments: [
        ("postgresql://u:pw@h/d", "postgresql://u:****@h/d"), ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgres://u:p@w@h:5432/d?sslmode=require", "postgres://u:****@h:5432/d?sslmode=require"),
        ("postgresql://u:p/w@h/d", "****"), ("postgresql://h/d?user=u&password=pw", "****"),
        ("host=h dbname=d", "host=h dbname=d"), ("host=h password=pw", "****"), ("host=h PASSWORD='pw'", "****"),
        ("postgresql:///d?host=/run/socket", "postgresql:///d?host=/run/socket"),
    ])
    func masksPasswords(_ text: String, _ shown: String) {
        #expect(SettingsTable[\.database.url].shown(text) == shown)
    }

    @Test func masksSecretsOfApplications() {
        let shown = SettingsTable[\.apps].shown(#"[{"id":"1","key":"k","secret":"hunter2"}]"#)
        #expect(shown == #"[{"id": "1", "key": "k", "secret": "****"}]"#)
        #expect(SettingsTable[\.apps].shown("hunter2") == "****")
        #expect(SettingsTable[\.jwt.secret].shown("hunter2") == "****")
    }
}
