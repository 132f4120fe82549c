import Clock
import Dispatch
import Glibc
import Reactor
import TestDatabase
import TestSupport
import Testing

@testable import Postgres

/// Host names: resolved off the loop, and never on it by libpq.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct HostNameTests {
    /// A resolver that answers when it is told to.
    private final class Held: Sendable {
        let begun = Locked<[String]>([])
        private let gate = DispatchSemaphore(value: 0)

        func release(_ count: Int = 1) {
            for _ in 0..<count { gate.signal() }
        }

        func resolver(_ answer: @escaping @Sendable (String) -> HostResolver.Answer) -> HostResolver {
            HostResolver { [self] name in
                begun.withLock { $0.append(name) }
                gate.wait()
                return answer(name)
            }
        }
    }

    private final class Outcome {
        var isReady = false
        var lost: PostgresError?
    }

    private let loop: EventLoop
    private let database: Database

    init() throws {
        loop = try EventLoop()
        database = try Cluster.shared.get().database()
    }

    /// The server is the last host, found by its folder of Unix sockets.
    private func string(behind hosts: String) -> String {
        database.hub.replacing("host=", with: "host=\(hosts),")
    }

    private func connect(
        _ string: String, _ resolver: HostResolver, timeout: Duration = .seconds(45)
    ) throws -> (Connection, Outcome) {
        let outcome = Outcome()
        let connection = Connection(
            loop: loop, parameters: try ConnectionParameters(string), connectTimeout: timeout, resolver: resolver,
            handlers: Connection.Handlers(ready: { outcome.isReady = true }, lost: { outcome.lost = $0 }))
        connection.connect()
        return (connection, outcome)
    }

    private func run(until condition: () -> Bool) throws {
        let end = Instant.read().advanced(by: .seconds(50))
        while !condition() {
            try #require(Instant.read() < end, "the condition was not met in 50 s")
            loop.tick(waitingAtMost: .milliseconds(100))
        }
    }

    @Test func aSlowNameDoesNotHoldTheLoop() throws {
        let held = Held()
        // Nobody listens there, so the next host is tried.
        let resolver = held.resolver { _ in .success(["127.0.0.1"]) }
        let (connection, outcome) = try connect(string(behind: "db.test") + " port=1,5432", resolver)
        defer { connection.close() }
        var rings = 0
        let alarm = try Alarm(loop) { rings += 1 }
        for ring in 1...3 {
            alarm.set(after: .milliseconds(1))
            try run { rings == ring }
        }
        #expect(!outcome.isReady && outcome.lost == nil)
        held.release()
        try run { outcome.isReady || outcome.lost != nil }
        #expect(outcome.isReady, "\(outcome.lost?.description ?? "")")
        #expect(held.begun.withLock { $0 } == ["db.test"])
    }

    /// One thread per name; lookups that gave up get no answer.
    @Test func connectionsThatGiveUpHoldNoThreads() throws {
        let held = Held()
        let resolver = held.resolver { _ in .failure(HostNotFound(reason: "no such name")) }
        for _ in 0..<3 {
            let (_, outcome) = try connect("host=db.test dbname=x", resolver, timeout: .milliseconds(20))
            try run { outcome.lost != nil }
            #expect(outcome.lost == PostgresError(.timeout, "the host name \"db.test\" was not resolved in time"))
        }
        let (closed, silent) = try connect("host=db.test dbname=x", resolver)
        closed.close()
        let (_, waiting) = try connect("host=db.test dbname=x", resolver)
        #expect(eventually { held.begun.withLock { $0.count } == 1 })
        held.release()
        try run { waiting.lost != nil }
        #expect(waiting.lost == PostgresError(.connecting, "host name \"db.test\": no such name"))
        #expect(silent.lost == nil && !silent.isReady)
        // The thread has ended: the next lookup starts another.
        held.release()
        let (_, next) = try connect("host=db.test dbname=x", resolver)
        try run { next.lost != nil }
        #expect(held.begun.withLock { $0.count } == 2)
    }

    /// A name that hangs does not keep the hub from its other hosts.
    @Test func theOtherHostsAreTriedInTime() throws {
        let held = Held()
        defer { held.release() }
        let resolver = held.resolver { _ in .failure(HostNotFound(reason: "late")) }
        let (connection, outcome) = try connect(string(behind: "db.test"), resolver, timeout: .seconds(20))
        defer { connection.close() }
        try run { outcome.isReady || outcome.lost != nil }
        #expect(outcome.isReady)
    }

    @Test func aNameThatIsUnknownIsTold() throws {
        let (_, outcome) = try connect("host=nowhere.invalid dbname=x", .system)
        try run { outcome.lost != nil }
        #expect(outcome.lost?.kind == .connecting)
        #expect(outcome.lost?.message.contains("nowhere.invalid") == true)
    }

    @Test func theSystemKnowsThisHost() throws {
        let lookUp = try HostResolver.system.lookUp(["localhost"])
        var entry = pollfd(fd: lookUp.descriptor, events: Int16(POLLIN), revents: 0)
        #expect(poll(&entry, 1, 50_000) == 1)
        let addresses = try #require(try lookUp.end()["localhost"]?.get())
        #expect(addresses.contains("127.0.0.1") || addresses.contains("::1"))
    }

    @Test func namesStandBesideTheirAddresses() throws {
        func resolved(_ string: String, _ addresses: [String: [String]]) throws -> [String: String]? {
            let parameters = try ConnectionParameters(string, defaults: [])
            guard let resolved = parameters.resolved(addresses) else { return nil }
            return Dictionary(uniqueKeysWithValues: resolved.keywords.map { ($0.name, $0.value) })
        }
        let two = ["db": ["10.0.0.1", "fe80::1%eth0"], "other": ["10.0.0.3"]]
        var found = try #require(try resolved("postgresql://u@db:5433/x?sslmode=verify-full", two))
        #expect(found["host"] == "db,db" && found["hostaddr"] == "10.0.0.1,fe80::1%eth0" && found["port"] == "5433")
        #expect(found["sslmode"] == "verify-full" && found["user"] == "u" && found["dbname"] == "x")
        found = try #require(try resolved("postgresql://db:1,127.0.0.1:2,other:3/x", two))
        #expect(found["host"] == "db,db,127.0.0.1,other")
        #expect(found["hostaddr"] == "10.0.0.1,fe80::1%eth0,,10.0.0.3")
        #expect(found["port"] == "1,1,2,3")
        found = try #require(try resolved("host=db,/run/postgresql,other hostaddr=10.9.9.9,,", two))
        #expect(found["host"] == "db,/run/postgresql,other" && found["hostaddr"] == "10.9.9.9,,10.0.0.3")
        // Of several hosts, the resolved ones; nil if none is.
        found = try #require(try resolved("host=db,other", ["other": ["10.0.0.3"]]))
        #expect(found["host"] == "other" && found["hostaddr"] == "10.0.0.3")
        #expect(try resolved("host=db,other", [:]) == nil)
    }

    @Test(arguments: [
        "dbname=x", "host=/run/postgresql", "host=@abstract", "host=127.0.0.1", "host=::1", "host=db hostaddr=10.0.0.1",
        "host=",
        "hostaddr=10.0.0.1", "service=far", "host=a,b hostaddr=10.0.0.1", "host=a,b,c port=1,2",
    ])
    func addressesAreLeftToLibpq(_ string: String) throws {
        #expect(try ConnectionParameters(string).unresolvedNames.isEmpty)
    }

    @Test func namesAreFound() throws {
        #expect(try ConnectionParameters("host=a,/run,b,a,127.0.0.1,").unresolvedNames == ["a", "b"])
        #expect(try ConnectionParameters("postgresql://db.example/x").unresolvedNames == ["db.example"])
    }
}
