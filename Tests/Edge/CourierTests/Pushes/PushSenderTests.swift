import Clock
import Foundation
import Logging
import Outbox
import Reactor
import TestSupport
import Testing

@testable import Courier

/// Requests at the webhook, counted while they are in flight.
@Suite(.ownThread, .timeLimit(.minutes(10))) struct PushSenderTests {
    /// How a backend speaks HTTP.
    enum Speech: CaseIterable {
        case keepsAlive, closesEach, oldVersion, tls
    }

    private let metrics = PushMetrics()
    private let outcomes = Locked<[PushOutcome]>([])

    private func sender(_ url: String, requestsMax: Int, caFile: String? = nil) throws -> PushSender {
        var configuration = PushConfiguration()
        configuration.webhookURL = url
        configuration.webhookCredentials = signer
        configuration.webhookRequestsMax = requestsMax
        configuration.caFile = caFile
        let outcomes = outcomes
        return try PushSender(
            configuration, metrics: metrics, logger: Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() }
        ) { told in outcomes.withLock { $0 += told } }
    }

    private func push(_ id: Int64, of user: String) -> DuePush {
        let end = Instant.read().advanced(by: .seconds(300))
        var push = DuePush(id: id, attempt: 1, platform: .webhook, token: user, leaseEnd: end)
        push.userID = user
        return push
    }

    /// No wave of requests is answered before all of it is there.
    @Test(arguments: Speech.allCases) func asManyAreInFlightAsMayBe(_ speech: Speech) throws {
        let waves = Waves(of: 32, total: 200)
        let folder = try CertificateFolder()
        let pair = try folder.make("receiver", hosts: ["localhost"])
        let files = TLSCertificateFiles(certificate: pair.certificate, key: pair.key)
        let receiver = try Receiver(tls: speech == .tls ? TLSServer(.init(certificates: [files])) : nil) { _ in
            waves.pass()
            return switch speech {
            case .keepsAlive, .tls: .status(200)
            case .closesEach: .raw(Array("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".utf8))
            case .oldVersion: .raw(Array("HTTP/1.0 200 OK\r\n\r\n".utf8))
            }
        }
        let sender = try sender(receiver.url(host: "localhost"), requestsMax: 32, caFile: pair.certificate)
        defer { sender.stop(within: .zero) }
        sender.post((1...200).map { push($0, of: "u\($0)") })
        #expect(eventually { outcomes.withLock { $0.count } == 200 })
        #expect(outcomes.withLock { $0.allSatisfy { $0.result == .sent } })
        #expect(waves.most == 32 && !waves.hasGivenUp)
    }

    @Test func oneUserWhoseRequestsHangHoldsUpNoOther() throws {
        let receiver = try Receiver { $0.body.contains("hangs") ? .silence : .status(200) }
        let sender = try sender(receiver.url(), requestsMax: 8)
        defer { sender.stop(within: .zero) }
        sender.post((1...800).map { push($0, of: "hangs") })
        #expect(receiver.wait(for: 4).count == 4)
        sender.post([push(801, of: "other"), push(802, of: "other")])
        #expect(eventually { outcomes.withLock { $0.map(\.id).sorted() } == [801, 802] })
        #expect(receiver.seen.count == 6 && metrics.heldUpCount(.webhook) == 0)
    }
}

/// Lets requests pass when as many have come as may be in flight, or all that are left.
private final class Waves: @unchecked Sendable {
    private let size: Int
    private let total: Int
    private let condition = NSCondition()
    private var (arrived, inside) = (0, 0)
    private(set) var most = 0
    private(set) var hasGivenUp = false

    init(of size: Int, total: Int) { (self.size, self.total) = (size, total) }

    func pass() {
        condition.withLock {
            let wanted = min(total, (arrived / size + 1) * size)
            arrived += 1
            inside += 1
            most = max(most, inside)
            condition.broadcast()
            let end = Date(timeIntervalSinceNow: 8)
            while arrived < wanted, condition.wait(until: end) {}
            if arrived < wanted { hasGivenUp = true }
            inside -= 1
        }
    }
}
