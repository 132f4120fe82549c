import Redis
import Testing

@Suite struct RedisURLTests {
    private static func place(_ host: String, _ port: UInt16) -> RedisURL.Place { .init(host: host, port: port) }

    @Test(arguments: [
        ("redis://a", "redis://a:6379"), ("redis://a:1", "redis://a:1"), ("redis://a:65535/", "redis://a:65535"),
        ("rediss://a.b-c_d/0", "rediss://a.b-c_d:6379"), ("redis://127.0.0.1:7", "redis://127.0.0.1:7"),
        ("redis://[::1]", "redis://[::1]:6379"), ("rediss://[2001:db8::1]:7/0", "rediss://[2001:db8::1]:7"),
        ("redis://u:p@a", "redis://a:6379"), ("redis://:p@[::1]:5", "redis://[::1]:5"),
        ("redis+sentinel://a/s", "redis+sentinel://a:26379/s"),
        ("rediss+sentinel://u:p@a:1,[::1]:2,c/my%2Fmaster", "rediss+sentinel://a:1,[::1]:2,c:26379/my/master"),
        ("redis+sentinel://a/s?sentinel_user=u&sentinel_password=p", "redis+sentinel://a:26379/s"),
    ]) func placesAreRead(_ text: String, _ summary: String) throws {
        #expect(try RedisURL(text).summary == summary)
    }

    @Test(arguments: [
        ("redis://u:p@a", "u", "p"), ("redis://:p@a", "default", "p"), ("redis://u:@a", "u", ""),
        ("redis://%75:%40%2f%3A%25%FF@a", "u", nil), ("redis://u:a:b@a", "u", "a:b"),
        ("redis+sentinel://%C3%BC:p%20q@a,b/s", "ü", "p q"),
    ]) func credentialsAreDecoded(_ text: String, _ user: String, _ password: String?) throws {
        let found = try #require(try RedisURL(text).credentials)
        #expect(found.user == Array(user.utf8))
        #expect(found.password == password.map { Array($0.utf8) } ?? Array("@/:%".utf8) + [0xff])
    }

    @Test func sentinelsHaveTheirOwn() throws {
        let both = try RedisURL("redis+sentinel://u:p@a:1,b/s?sentinel_user=x&sentinel_password=%26y")
        #expect(both.way == .sentinels([Self.place("a", 1), Self.place("b", 26_379)], service: Array("s".utf8)))
        #expect(both.sentinelCredentials?.user == Array("x".utf8))
        #expect(both.sentinelCredentials?.password == Array("&y".utf8))
        let one = try RedisURL("redis+sentinel://a/s?sentinel_password=y")
        #expect(one.credentials == nil && one.sentinelCredentials?.user == Array("default".utf8))
        #expect(try RedisURL("redis+sentinel://a/s?").sentinelCredentials == nil)
        #expect(try RedisURL("redis://a").credentials == nil)
    }

    private static let many = Array(repeating: "h", count: RedisLimits.sentinelsMax).joined(separator: ",")
    private static let long = String(repeating: "h", count: RedisLimits.hostBytesMax)

    @Test func boundsAreKept() throws {
        _ = try RedisURL("redis+sentinel://\(Self.many)/s")
        #expect(throws: RedisURLError.self) { try RedisURL("redis+sentinel://\(Self.many),h/s") }
        _ = try RedisURL("redis://\(Self.long)")
        #expect(throws: RedisURLError.self) { try RedisURL("redis://\(Self.long)h") }
    }

    /// `hidden` stands for the password, and for what may be one.
    @Test(arguments: [
        ("", RedisURLError.Part.scheme), ("hidden", .scheme), ("http://hidden", .scheme), ("REDIS://a", .scheme),
        ("redis:/a", .scheme), ("redis-sentinel://a/s", .scheme), ("redis://u:hid@den@a", .encoding),
        ("redis://u:hidden/@a", .encoding), ("redis://u:hidden?@a", .encoding), ("redis://u:#hidden@a", .encoding),
        ("redis://[u]:hidden@a", .encoding), ("redis+sentinel://a/s?sentinel_password=hidden@", .encoding),
        ("redis://hidden@a", .password), ("redis://@a", .password), ("redis://u:hidden%@a", .percent),
        ("redis://u:hidden%4@a", .percent), ("redis://u:hidden%4g@a", .percent), ("redis://%:hidden@a", .percent),
        ("redis+sentinel://a/%zz", .percent), ("redis://", .host), ("redis://:7", .host), ("redis:///0", .host),
        ("redis://u:hidden@", .host), ("redis://a b", .host), ("redis://ä", .host), ("redis://a%41", .host),
        ("redis+sentinel://a,,b/s", .host), ("redis+sentinel:///s", .host), ("redis://::1", .address),
        ("redis://[::1", .address), ("redis://[]", .address), ("redis://[127.0.0.1]", .address),
        ("redis://[::1]7", .address), ("redis://[hidden]", .address), ("redis://[fe80::1%25eth0]", .address),
        ("redis://a,b", .hosts), ("redis://a:0", .port), ("redis://a:65536", .port), ("redis://a:", .port),
        ("redis://a:+7", .port), ("redis://u:hidden", .port), ("redis://[::1]:", .port), ("redis://a/1", .database),
        ("redis://a/0/", .database), ("redis://a/00", .database), ("redis://a/hidden", .database),
        ("redis://a?db=0", .query), ("redis://a/?", .query), ("redis://a#hidden", .fragment),
        ("redis+sentinel://a/s#", .fragment), ("redis+sentinel://a", .service), ("redis+sentinel://a/", .service),
        ("redis+sentinel://a/s/0", .service), ("redis+sentinel://a/s?hidden", .sentinelQuery),
        ("redis+sentinel://a/s?password=hidden", .sentinelQuery),
        ("redis+sentinel://a/s?sentinel_user=u", .sentinelQuery),
        ("redis+sentinel://a/s?sentinel_user=&sentinel_password=hidden", .sentinelQuery),
        ("redis+sentinel://a/s?sentinel_password=hidden&sentinel_password=b", .sentinelQuery),
    ]) func errorsSayWhatToWrite(_ text: String, _ part: RedisURLError.Part) {
        let error = #expect(throws: RedisURLError.self) { try RedisURL(text) }
        #expect(error?.part == part, "\(text)")
        #expect(error?.description.contains("hid") == false)
        #expect(error?.description.contains("write") == true || error?.description.contains("leave") == true)
    }

    @Test func everyPartHasWords() {
        #expect(RedisURLError.Part.allCases.count == 14)
    }
}
