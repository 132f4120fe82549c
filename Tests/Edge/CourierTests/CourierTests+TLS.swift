import CCurl
import Foundation
import Glibc
import HubEngine
import Reactor
import TestSupport
import Testing

@testable import Courier

/// Which certificates are trusted, and how often they are read.
extension CourierTests {
    private func secured(_ folder: CertificateFolder, host: String) throws -> (Receiver, CertificateFolder.Pair) {
        let pair = try folder.make("receiver", hosts: [host])
        let files = TLSCertificateFiles(certificate: pair.certificate, key: pair.key)
        return (try Receiver(tls: TLSServer(.init(certificates: [files]))), pair)
    }

    @Test func certificatesAreJudged() throws {
        let folder = try CertificateFolder()
        let (receiver, pair) = try secured(folder, host: "localhost")
        do {
            let courier = try courier([WebhookApp([receiver.url(host: "localhost")])]) { $0.caFile = pair.certificate }
            courier.post(.channelVacated(channel("a")), of: app())
            #expect(eventually { metrics.deliveredCount == 1 })
            expectSigned(try #require(receiver.seen.only))
            courier.stop(within: .milliseconds(100))
        }
        // Another name, and roots that are not its own.
        for (host, file) in [("127.0.0.1", pair.certificate), ("localhost", nil)] as [(String, String?)] {
            let before = metrics.requestCount("tls")
            let courier = try courier([WebhookApp([receiver.url(host: host)])]) { $0.caFile = file }
            courier.post(.channelVacated(channel("a")), of: app())
            #expect(eventually { metrics.requestCount("tls") >= before + 2 })
            courier.stop(within: .milliseconds(100))
        }
        #expect(metrics.deliveredCount == 1)
        #expect(receiver.seen.count == 1)
    }

    @Test func certificatesAreReadOnceInTheirTime() throws {
        let folder = try CertificateFolder()
        let pair = try folder.make("receiver", hosts: ["localhost"])
        let files = TLSCertificateFiles(certificate: pair.certificate, key: pair.key)
        let receiver = try Receiver(tls: TLSServer(.init(certificates: [files]))) { _ in
            .status(200, fields: "Connection: close\r\n")
        }
        let roots = try folder.write(Array(Data(contentsOf: URL(fileURLWithPath: pair.certificate))), to: "roots.pem")
        let courier = try courier([WebhookApp([receiver.url(host: "localhost")])]) {
            ($0.caFile, $0.limits.certificatesKept) = (roots, .seconds(3_600))
        }
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.deliveredCount == 1 })
        try FileManager.default.removeItem(atPath: roots)
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.deliveredCount == 2 })
        #expect(receiver.connectionCount == 2 && metrics.requestCount("tls") == 0)
    }

    @Test func certificatesThatAreReplacedAreRead() throws {
        let folder = try CertificateFolder()
        let (receiver, pair) = try secured(folder, host: "localhost")
        let other = try folder.make("other", hosts: ["localhost"])
        let file = { try Array(Data(contentsOf: URL(fileURLWithPath: $0))) }
        let roots = try folder.write(file(other.certificate), to: "roots.pem")
        let courier = try courier([WebhookApp([receiver.url(host: "localhost")])]) {
            ($0.caFile, $0.limits.certificatesKept) = (roots, .seconds(1))
        }
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.requestCount("tls") >= 1 })
        _ = try folder.write(file(pair.certificate), to: "roots.pem")
        #expect(eventually { metrics.deliveredCount == 1 })
    }

    /// The system's hundreds of certificates are not read for each connection, which would take longer than the rest of it.
    @Test(.enabled(if: carillon_curl_system_ca_file().map { access($0, R_OK) == 0 } ?? false))
    func theSystemsCertificatesAreReadOnce() throws {
        let (receiver, _) = try secured(try CertificateFolder(), host: "localhost")
        let request = try SingleRequest(receiver.url(host: "localhost")) {
            $0.limits.certificatesKept = .seconds(3_600)
        }
        var nanoseconds: [Int] = []
        for _ in 0..<8 {
            let before = threadNanoseconds()
            let (code, _) = try request.make()
            nanoseconds.append(threadNanoseconds() - before)
            #expect(code == CURLE_PEER_FAILED_VERIFICATION)
        }
        let median = nanoseconds.dropFirst().sorted()[3]
        #expect(median * 3 < nanoseconds[0], "\(nanoseconds)")
    }

    private func threadNanoseconds() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}
