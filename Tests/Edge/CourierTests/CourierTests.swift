import CCurl
import Foundation
import Glibc
import HubEngine
import Logging
import Metrics
import Pusher
import Reactor
import TestSupport
import Testing

@testable import Courier

@Suite(.ownThread, .timeLimit(.minutes(15)))
struct CourierTests {
    let metrics = CourierMetrics()

    /// A courier that may reach this machine, with short timeouts where a test waits for them.
    func courier(
        _ apps: [WebhookApp], logger: Logger = Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() },
        _ change: (inout CourierConfiguration) -> Void = { _ in }
    ) throws -> Courier {
        var configuration = CourierConfiguration()
        configuration.allowsPrivate = true
        configuration.limits.pauseMin = .milliseconds(20)
        configuration.limits.pauseMax = .milliseconds(100)
        change(&configuration)
        return try Courier(configuration, apps: apps, metrics: metrics, logger: logger)
    }

    func expectSigned(_ request: Receiver.Request) {
        let signature = Array(request.body.utf8).withUnsafeBytes { signer.code(ofText: $0) }
        #expect(request.field("x-pusher-signature") == signature)
    }

    @Test func aWebhookIsASignedPost() throws {
        let receiver = try Receiver()
        let endpoint = WebhookEndpoint(
            url: receiver.url("/hook?a=b"), kinds: .all, headers: [.init("X-Mine", "yes, mine"), .init("X-Empty", "")])
        let courier = try courier([WebhookApp(id: "1", credentials: signer, endpoints: [endpoint])])
        defer { courier.stop(within: .milliseconds(100)) }
        let before = UInt64(Date().timeIntervalSince1970 * 1_000)
        courier.post(.memberAdded(channel("presence-a"), userID: "7"), of: app())
        let request = try #require(receiver.wait(for: 1).only)
        #expect(request.head.hasPrefix("POST /hook?a=b HTTP/1.1\r\n"))
        #expect(request.field("content-type") == "application/json")
        #expect(request.field("x-pusher-key") == "key")
        #expect(request.field("x-mine") == "yes, mine")
        #expect(request.field("x-empty") == "")
        #expect(request.field("user-agent") == "Carillon")
        #expect(request.field("expect") == nil)
        expectSigned(request)
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(request.body.utf8)) as? [String: Any])
        let time = try #require(object["time_ms"] as? UInt64)
        #expect(time >= before && time <= before + 60_000)
        #expect(
            object["events"] as? [[String: String]] == [
                ["name": "member_added", "channel": "presence-a", "user_id": "7"]
            ])
        #expect(eventually { metrics.deliveredCount == 1 })
        #expect(metrics.requestCount("2xx") == 1)
    }

    @Test func whatTheAppDoesNotWantIsNotQueued() throws {
        let receiver = try Receiver()
        let courier = try courier([WebhookApp([receiver.url()])])
        courier.post(.cacheMiss(channel("cache-a")), of: app(kinds: .presence))
        courier.post(.memberAdded(channel("presence-a"), userID: "7"), of: app(kinds: .presence))
        courier.stop(within: .seconds(60))
        #expect(receiver.seen.map { $0.body.contains("member_added") } == [true])
    }

    @Test func aChannelsEventsComeInTheirOrderByFewConnections() throws {
        let receiver = try Receiver()
        let courier = try courier([WebhookApp([receiver.url()])])
        defer { courier.stop(within: .milliseconds(100)) }
        for count in 1...300 { courier.post(.subscriptionCount(channel("c\(count % 3)"), count), of: app()) }
        let requests = receiver.wait(for: 300)
        #expect(requests.count == 300)
        for line in 0..<3 {
            let counts = requests.filter { $0.body.contains("\"c\(line)\"") }.compactMap { request in
                request.body.split(separator: ":").last.flatMap { Int($0.prefix { $0.isNumber }) }
            }
            #expect(counts == counts.sorted())
            #expect(counts.count == 100)
        }
        #expect(receiver.connectionCount <= 8, "connections are used again: \(receiver.connectionCount)")
    }

    @Test func batchesHoldSeveral() throws {
        let receiver = try Receiver()
        let courier = try courier([WebhookApp([receiver.url()], isBatched: true)]) {
            ($0.limits.batchEventsMax, $0.limits.batchWindow) = (10, .seconds(600))
        }
        defer { courier.stop(within: .milliseconds(100)) }
        for count in 1...50 { courier.post(.subscriptionCount(channel("c"), count), of: app()) }
        #expect(eventually { metrics.deliveredCount == 50 })
        #expect(receiver.seen.count == 5)
        for request in receiver.seen { expectSigned(request) }
    }

    @Test func failuresAreRepeatedWithNewTimes() throws {
        let receiver = try Receiver { request in .status(request.connection < 2 ? 500 : 204) }
        let statuses = Locked([500, 404, 302])
        let failing = try Receiver { _ in
            let next = statuses.withLock { $0.isEmpty ? 204 : $0.removeFirst() }
            return .status(next, fields: next == 302 ? "Location: \(receiver.url("/elsewhere"))\r\n" : "")
        }
        let courier = try courier([WebhookApp([failing.url()])])
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        let requests = failing.wait(for: 4)
        #expect(requests.count == 4)
        #expect(Set(requests.map(\.body)).count == 4, "each says when it is made")
        for request in requests { expectSigned(request) }
        #expect(eventually { metrics.deliveredCount == 1 })
        #expect(["5xx", "4xx", "3xx", "2xx"].map { metrics.requestCount($0) } == [1, 1, 1, 1])
        #expect(metrics.retryCount == 3)
        #expect(receiver.seen.isEmpty, "no redirect is followed")
    }

    @Test func whatFailsForTooLongIsDropped() throws {
        let receiver = try Receiver { _ in .status(503) }
        let courier = try courier([WebhookApp([receiver.url()])]) { $0.limits.retryFor = .milliseconds(300) }
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.droppedCount(.expired) == 1 })
        #expect(!receiver.seen.isEmpty)
        #expect(metrics.waiting.level == 0)
    }

    private func expectFailures(_ url: String, _ result: String) throws {
        let courier = try courier([WebhookApp([url])])
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.requestCount(result) >= 2 })
        #expect(metrics.deliveredCount == 0)
    }

    @Test(arguments: ["nonsense\r\n\r\n", "HTTP/1.1 20", ""])
    func answersThatAreNoneAreFailures(_ answer: String) throws {
        let receiver = try Receiver { _ in .raw(Array(answer.utf8)) }
        try expectFailures(receiver.url(), "broken")
    }

    @Test func aClosedPortIsAFailure() throws {
        let url = try Receiver().url()
        try expectFailures(url, "connect")
    }

    @Test func anEndpointThatHangsHoldsUpNoOther() throws {
        let silent = try Receiver { _ in .silence }
        let receiver = try Receiver()
        let courier = try courier([WebhookApp([silent.url(), receiver.url()])]) {
            $0.limits.requestTimeout = .seconds(600)
        }
        for count in 1...200 { courier.post(.subscriptionCount(channel("c\(count)"), count), of: app()) }
        #expect(receiver.wait(for: 200).count == 200)
        #expect(silent.seen.count <= 8)
        #expect(eventually { metrics.deliveredCount == 200 })
        courier.stop(within: .milliseconds(100))
        #expect(metrics.droppedCount(.stopped) == 200, "all that the silent one was not told")
        #expect(metrics.waiting.level == 0)
    }

    @Test func silenceHasAnEnd() throws {
        let silent = try Receiver { _ in .silence }
        let courier = try courier([WebhookApp([silent.url()])]) { $0.limits.requestTimeout = .milliseconds(50) }
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.requestCount("timeout") >= 2 })
    }

    @Test(arguments: [(1_000, 0), (1_001, 1)]) func answersAreReadUpToABound(_ bytes: Int, _ aborts: Int) throws {
        let receiver = try Receiver { _ in .status(200, body: [UInt8](repeating: 0x20, count: bytes - 42)) }
        let head = "HTTP/1.1 200 X\r\nContent-Length: \(bytes - 42)\r\n\r\n"
        #expect(head.utf8.count <= 42)
        let courier = try courier([WebhookApp([receiver.url()])]) {
            $0.limits.responseBytesMax = 1_000 - 42 + head.utf8.count
            $0.limits.requestsPerEndpoint = 1
        }
        defer { courier.stop(within: .milliseconds(100)) }
        for _ in 0..<2 { courier.post(.channelVacated(channel("a")), of: app()) }
        receiver.wait(for: 2)
        #expect(eventually { metrics.deliveredCount == 2 }, "the status has told all there is to know")
        #expect(receiver.connectionCount == 1 + aborts)
    }

    /// libcurl itself ends a head of 300 KB, with another code.
    @Test func aHeadWithoutEndIsCutOff() throws {
        let receiver = try Receiver { _ in .unending(Array("HTTP/1.1 500 X\r\n".utf8), Array("A: b\r\n".utf8)) }
        let request = try SingleRequest(receiver.url()) {
            $0.limits.responseBytesMax = 1_000
            // Only the bound ends it within the test's timeout.
            $0.limits.requestTimeout = .seconds(600)
        }
        let (code, result) = try request.make()
        #expect(code == CURLE_WRITE_ERROR)
        #expect(result == .failed(.status5xx))
    }

    /// A peer that accepts the connection and then says nothing in the TLS handshake.
    @Test func connectingHasAnEndOfItsOwn() throws {
        let silent = try Receiver { _ in .silence }
        let url = silent.url().replacing("http:", with: "https:")
        let courier = try courier([WebhookApp([url])]) {
            ($0.limits.connectTimeout, $0.limits.requestTimeout) = (.milliseconds(50), .seconds(600))
        }
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.requestCount("timeout") >= 2 })
        #expect(eventually { silent.connectionCount >= 2 })
    }

    /// An address needs no resolution, so nothing lingers.
    @Test func aSilentServerIsNotMistakenForANameFailure() throws {
        let silent = try Receiver { _ in .silence }
        let request = try SingleRequest(silent.url()) { $0.limits.requestTimeout = .milliseconds(50) }
        let transfer = try request.transfer()
        let code = try request.run(transfer)
        #expect(code == CURLE_OPERATION_TIMEDOUT && !transfer.wasResolving(code))
    }

    @Test func namesThatAreGivenUpAreBoundedForEachApp() {
        var limits = CourierLimits()
        (limits.lingeringResolvesMax, limits.lingeringResolve) = (6, .seconds(60))
        var resolves = DNSLimiter(limits)
        func mayBegin(_ app: String, of apps: Int, at second: Double) -> Bool {
            resolves.mayBegin(app, of: apps, at: .second(second))
        }
        for second in 0..<3 {
            #expect(mayBegin("1", of: 2, at: Double(second)))
            resolves.add("1", at: .second(Double(second)))
        }
        #expect(!mayBegin("1", of: 2, at: 3), "half of the six")
        #expect(mayBegin("2", of: 2, at: 3))
        #expect(!mayBegin("1", of: 2, at: 59.9))
        #expect(mayBegin("1", of: 2, at: 60))
        resolves.add("1", at: .second(60))
        #expect(!mayBegin("1", of: 2, at: 60))
        #expect(mayBegin("2", of: 1_000, at: 60), "one at least")
        resolves.add("2", at: .second(60))
        #expect(!mayBegin("2", of: 1_000, at: 60))
        #expect(CourierLimits().descriptorsMax == 3 * 128 + 2 * 64 + 16)
    }

    // MARK: Addresses

    @Test(
        arguments: [
            "localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0", "[::1]", "[::ffff:127.0.0.1]",
            "169.254.169.254", "10.0.0.1", "[fe80::1]",
        ])
    func addressesThatAreNotPublicAreNotReached(_ host: String) throws {
        let receiver = try Receiver()
        let courier = try courier([WebhookApp([receiver.url(host: host)])]) { $0.allowsPrivate = false }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.requestCount("address") >= 2 })
        courier.stop(within: .milliseconds(100))
        #expect(receiver.connectionCount == 0)
        #expect(metrics.requestCount("2xx") == 0)
    }

    @Test func aNameMayBeAllowedToBePrivate() throws {
        let receiver = try Receiver()
        let courier = try courier([WebhookApp([receiver.url(host: "localhost")])])
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.deliveredCount == 1 })
    }

    @Test(arguments: ["file", "gopher://127.0.0.1:1/", "ftp://127.0.0.1:1/", "smtp://127.0.0.1:1/"])
    func otherProtocolsAreNotSpoken(_ url: String) throws {
        let folder = try CertificateFolder()
        let url = url == "file" ? "file://\(try folder.write(Array("x".utf8), to: "file"))" : url
        let (code, result) = try SingleRequest(url).make()
        #expect(code == CURLE_UNSUPPORTED_PROTOCOL)
        #expect(result == .failed(.broken))
    }

    // MARK: Lifecycle

    @Test func otherEndpointsWhileItRuns() throws {
        let old = try Receiver { _ in .status(500) }
        let new = try Receiver()
        let courier = try courier([WebhookApp([old.url()])])
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        old.wait(for: 2)
        courier.replace([WebhookApp([new.url()])])
        #expect(eventually { metrics.droppedCount(.removed) == 1 })
        courier.post(.channelOccupied(channel("a")), of: app())
        #expect(new.wait(for: 1).map { $0.body.contains("channel_occupied") } == [true])
    }

    @Test func theEndDeliversWhatItCan() throws {
        let receiver = try Receiver()
        let courier = try courier([WebhookApp([receiver.url()], isBatched: true)]) {
            $0.limits.batchWindow = .seconds(600)
        }
        for count in 1...10 { courier.post(.subscriptionCount(channel("c"), count), of: app()) }
        courier.stop(within: .seconds(60))
        #expect(metrics.deliveredCount == 10)
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(metrics.droppedCount(.stopped) == 1)
    }

    @Test func theEndDoesNotWaitForWhatFails() throws {
        let receiver = try Receiver { _ in .status(500) }
        let courier = try courier([WebhookApp([receiver.url()])]) {
            ($0.limits.pauseMin, $0.limits.pauseMax) = (.seconds(3_600), .seconds(3_600))
        }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.requestCount("5xx") == 1 })
        courier.stop(within: .seconds(3_600))
        #expect(receiver.seen.count == 2, "one last try")
        #expect(metrics.droppedCount(.stopped) == 1)
    }

    /// Requests queued behind others are also sent while there is time. The log reports the rest by kind and number only.
    @Test func theEndTellsWhatItDrops() throws {
        let silent = try Receiver { _ in .silence }
        let receiver = try Receiver()
        let lines = KeptLines()
        let courier = try courier(
            [WebhookApp([receiver.url(), silent.url()])], logger: Logger(label: "kept") { _ in lines })
        for number in 0..<60 { courier.post(.channelOccupied(channel("secret\(number)")), of: app()) }
        for _ in 0..<3 { courier.post(.memberAdded(channel("presence-secret"), userID: "secret"), of: app()) }
        #expect(eventually { metrics.deliveredCount == 63 })
        courier.stop(within: .milliseconds(50))
        #expect(metrics.droppedCount(.stopped) == 63 && metrics.waiting.level == 0)
        let line = try #require(lines.all.filter { $0.contains("dropped") }.only)
        #expect(line.contains("channel_existence=60") && line.contains("presence=3"))
        #expect(!lines.all.contains { $0.contains("secret") })
    }

    /// The hub's descriptors are also needed by clients: a request without one is retried later.
    @Test func aRequestWithoutADescriptorIsMadeAgain() throws {
        let receiver = try Receiver()
        let missing = Locked(3)
        let courier = try courier([WebhookApp([receiver.url()])]) {
            $0.makeSocket = { family, type, number in
                let isMissing = missing.withLock { left in
                    guard left > 0 else { return false }
                    left -= 1
                    return true
                }
                guard isMissing else { return socket(family, type, number) }
                errno = EMFILE
                return -1
            }
        }
        defer { courier.stop(within: .milliseconds(100)) }
        courier.post(.channelVacated(channel("a")), of: app())
        #expect(eventually { metrics.deliveredCount == 1 })
        #expect(metrics.requestCount("descriptors") == 3 && metrics.retryCount == 3)
        #expect(metrics.requestCount("2xx") == 1 && receiver.seen.count == 1)
    }

    @Test func theInboxHasBoundsForEachApp() throws {
        let apps = [WebhookApp(["http://a/"]), WebhookApp(["http://b/"], id: "2"), WebhookApp([], id: "3")]
        let multi = try CurlMulti<Transfer>(connections: 1)
        let occupied = WebhookEvent.channelOccupied(channel("a"))
        let one = PostedEvent(event: occupied, appID: "1", at: .read())
        let two = PostedEvent(event: occupied, appID: "2", at: .read())
        var limits = CourierLimits()
        limits.queueEventsMax = 2
        let few = CourierInbox(limits, metrics, multi, apps)
        for _ in 0..<2 { few.post(one) }
        #expect(metrics.droppedCount(.full) == 0)
        few.post(one)
        #expect(metrics.droppedCount(.full) == 1)
        few.post(two)
        #expect(few.takeAll().events.map(\.appID) == ["1", "1", "2"])
        few.post(one)
        #expect(few.takeAll().events.count == 1)
        // Each kind has room of its own.
        let added = WebhookEvent.memberAdded(channel("presence-a"), userID: "7")
        let other = PostedEvent(event: added, appID: "1", at: .read())
        for _ in 0..<10 { few.post(one) }
        for _ in 0..<2 { few.post(other) }
        #expect(metrics.droppedCount(.full) == 9)
        #expect(few.takeAll().events.map(\.event) == [occupied, occupied, added, added])
        limits = CourierLimits()
        limits.queueBytesMax = 2 * 2 * 5 * occupied.bytesKept
        let small = CourierInbox(limits, metrics, multi, apps)
        for _ in 0..<3 { small.post(one) }
        #expect(
            metrics.droppedCount(.full) == 10, "each app that has webhooks has half of the bytes, each kind a fifth")
        small.post(two)
        small.post(other)
        #expect(small.takeAll().events.map(\.appID) == ["1", "1", "2", "1"])
        limits.queueBytesMax = 1
        let tiny = CourierInbox(limits, metrics, multi, apps)
        for _ in 0..<2 { tiny.post(one) }
        #expect(tiny.takeAll().events.count == 1, "one is taken in any case")
    }

    @Test func metricsAreShown() {
        var exposition = Exposition()
        metrics.drop(3, .full)
        metrics.append(to: &exposition)
        let text = String(decoding: exposition.bytes, as: UTF8.self)
        #expect(text.contains(#"carillon_webhook_events_dropped_total{reason="full"} 3"#))
        #expect(text.contains(#"carillon_webhook_requests_total{result="timeout"} 0"#))
        metrics.cancelled(2)
        exposition = Exposition()
        metrics.append(to: &exposition)
        #expect(String(decoding: exposition.bytes, as: UTF8.self).contains("carillon_webhook_events_cancelled_total 2"))
    }
}
