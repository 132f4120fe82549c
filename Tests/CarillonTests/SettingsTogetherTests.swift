import Gateway
import Shared
import TestSupport
import Testing

@testable import carillon

@Suite(.timeLimit(.minutes(15)))
struct SettingsTogetherTests {
    private func effective(
        _ arguments: [String], environment: [String: String] = [:]
    ) throws(Failure) -> EffectiveSettings {
        try EffectiveSettings(SettingsSources(arguments: arguments, environment: environment), profile: .development)
    }

    /// Each loop has room for one connection, so smaller bounds are raised, with a warning.
    @Test func raisedBoundsAreWarnedOf() throws {
        func warnings(_ arguments: [String]) throws -> [String] {
            try Settings(effective(arguments)).warnings
        }
        let four = ["--loops", "4"]
        #expect(try warnings(four + ["--limits-send-queues-bytes", "32MiB"]).isEmpty)
        #expect(
            try warnings(four + ["--limits-send-queues-bytes", "31MiB"]) == [
                """
                command line --limits-send-queues-bytes: limits.sendQueuesBytes of 31MiB is raised to 32MiB: each of 4 loops \
                has room for what one connection may hold (limits.sendQueueBytes), 8MiB
                """
            ])
        // The other numbers can raise it too: 64 loops of 8 MiB exceed the default, and so do 64 requests.
        let loops = try warnings(["--loops", "64"])
        #expect(loops.count == 2)
        #expect(loops.first?.hasPrefix("default: limits.sendQueuesBytes of 256MiB is raised to 512MiB") == true)
        #expect(loops.last?.hasPrefix("default: limits.unfinishedBytes of 64MiB is raised to ") == true)
        let queue = try warnings(four + ["--limits-send-queue-bytes", "256MiB"])
        #expect(queue.count == 1 && queue.allSatisfy { $0.contains("raised to 1024MiB") })
        let needed = 4 * GatewayConfiguration().httpLimits.messageBytes
        #expect(try warnings(four + ["--limits-unfinished-bytes", "\(needed)"]).isEmpty)
        let unfinished = try warnings(four + ["--limits-unfinished-bytes", "\(needed - 1)"])
        #expect(unfinished.count == 1)
        #expect(unfinished.first?.contains("limits.unfinishedBytes of \(needed - 1) is raised to \(needed): ") == true)
        #expect(unfinished.first?.contains("(limits.messageBytes)") == true)
        let apps = ["--apps", #"[{"id":"1","key":"k","secret":"s","limits":{"batchEvents":30}}]"#]
        let long = try warnings(four + apps + ["--limits-unfinished-bytes", "\(needed)"])
        #expect(long.count == 1 && long.first?.contains("(apps, limits.messageBytes)") == true)
    }

    @Test(
        arguments: [
            (["--redis-ca-file", "a"], ["redis.caFile is of no use without a redis.url with TLS"]),
            (["--redis-url", "redis://h", "--redis-ca-file", "a"], ["redis.caFile is of no use", "rediss://"]),
            (
                ["--redis-url", "rediss://h", "--redis-key-file", "a"],
                ["redis.keyFile is given, and redis.certificateFile is not"]
            ),
        ]) func filesForRedisNeedEachOther(_ arguments: [String], _ words: [String]) throws
    {
        let failure = #expect(throws: Failure.self) { try Settings(effective(arguments)) }
        #expect(failure?.status == .configuration)
        for word in words { #expect(failure?.description.contains(word) == true, "\(failure?.description ?? "")") }
    }

    @Test func aFileForRedisThatIsMissingIsNamedWithItsSetting() throws {
        let folder = try CertificateFolder()
        let pair = try folder.make("hub", hosts: ["localhost"])
        func complaint(_ ca: String?, _ certificate: String?, _ key: String?) throws -> String? {
            var settings = try Settings(effective(["--redis-url", "rediss://h"]))
            settings.group.caFile = ca
            settings.group.certificateFile = certificate
            settings.group.keyFile = key
            let failure = #expect(throws: Failure.self) { try SharedSettings(settings) }
            #expect(failure?.status == .configuration)
            return failure?.description
        }
        let missing = "/no/such.file: No such file or directory"
        #expect(try complaint("/no/such.file", nil, nil) == "redis.caFile: \(missing)")
        #expect(try complaint(nil, "/no/such.file", pair.key) == "redis.certificateFile: \(missing)")
        #expect(try complaint(nil, pair.certificate, "/no/such.file") == "redis.keyFile: \(missing)")
        #expect(try SharedSettings(Settings(effective([]))).map(\.name) == nil)
    }

    @Test func aFileOfTLSThatIsMissingIsNamedWithItsSetting() throws {
        let folder = try CertificateFolder()
        let pair = try folder.make("hub", hosts: ["localhost"])
        func complaint(_ certificate: String, _ key: String, tickets: String? = nil) -> String? {
            let settings = TLSSettings(certificateFiles: [certificate], keyFiles: [key], ticketKeysFile: tickets)
            let failure = #expect(throws: Failure.self) { try settings.server() }
            #expect(failure?.status == .configuration)
            return failure?.description
        }
        let missing = "/no/such.file: No such file or directory"
        #expect(complaint("/no/such.file", pair.key) == "tls.certificateFiles: \(missing)")
        #expect(complaint(pair.certificate, "/no/such.file") == "tls.keyFiles: \(missing)")
        #expect(complaint("/no/such.file", "/no/such.file") == "tls.certificateFiles, tls.keyFiles: \(missing)")
        #expect(
            complaint(pair.certificate, pair.key, tickets: "/no/such.file") == "tls.ticketKeysFile: \(missing)")
    }

    @Test func aCertificateNeedsItsKey() throws {
        func complaint(_ arguments: [String], _ environment: [String: String] = [:]) throws -> String {
            let given = try effective(arguments, environment: environment)
            let failure = #expect(throws: Failure.self) { try Settings(given) }
            #expect(failure?.status == .configuration)
            return failure?.description ?? ""
        }
        let listen = ["--listen", "tls:127.0.0.1:0"]
        #expect(
            try complaint(listen, ["CARILLON_TLS_CERTIFICATE_FILES": "/a.pem"]).hasPrefix(
                """
                environment CARILLON_TLS_CERTIFICATE_FILES: tls.certificateFiles is given, and tls.keyFiles is not; give that too \
                (--tls-key-files, CARILLON_TLS_KEY_FILES)
                """))
        #expect(
            try complaint(listen + ["--tls-key-files", "/a.key"]).hasPrefix(
                "command line --tls-key-files: tls.keyFiles is given, and tls.certificateFiles is not; give that too (")
        )
        #expect(
            try complaint(listen + ["--tls-key-files", "/a.key,/b.key", "--tls-certificate-files", "/a.pem"]).hasPrefix(
                "command line --tls-key-files: tls.keyFiles names 2 files and tls.certificateFiles 1;"))
    }
}
