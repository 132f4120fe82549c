import Clock
import Feed
import Sync
import TestSupport
import Testing

/// When revocations are read, and from where.
@Suite(.timeLimit(.minutes(15))) struct RevocationTailTests {
    private func page(_ users: String...) -> [Revocation] { users.map { Revocation(userID: $0, before: 1) } }

    private func query(_ tail: inout RevocationTail, at milliseconds: Int = 0) -> [String?]? {
        tail.nextQuery(at: Instant(nanoseconds: 1).advanced(by: .milliseconds(milliseconds)))
            .map { [$0.previous, $0.after] }
    }

    @Test func allOnConnectThenWhatIsNew() {
        var tail = RevocationTail(pageRows: 2)
        tail.wake()
        #expect(query(&tail) == nil)
        tail.connected()
        #expect(query(&tail) == [nil, nil])
        #expect(query(&tail) == nil)
        tail.received(page("a", "b"), snapshot: "s1")
        #expect(tail.isAmidRead)
        #expect(!tail.isComplete)
        #expect(query(&tail) == [nil, "b"])
        #expect(tail.isBusy)
        tail.received(page("c"), snapshot: "s2")
        #expect(!tail.isBusy)
        #expect(tail.isComplete)
        #expect(query(&tail) == nil)
        tail.wake()
        // What a later page could see may belong to users of earlier pages.
        #expect(query(&tail) == ["s1", nil])
        tail.received([], snapshot: "s3")
        tail.wake()
        #expect(query(&tail) == ["s3", nil])
    }

    @Test func aWakeWhileReadingReadsAgain() {
        var tail = RevocationTail()
        tail.connected()
        _ = query(&tail)
        tail.wake()
        tail.received([], snapshot: "s1")
        #expect(query(&tail) == ["s1", nil])
    }

    @Test func aNewConnectionBeginsAnew() {
        var tail = RevocationTail(pageRows: 1)
        tail.connected()
        _ = query(&tail)
        tail.received(page("a"), snapshot: "s1")
        tail.disconnected()
        #expect(query(&tail) == nil)
        tail.connected()
        #expect(query(&tail) == [nil, nil])
        tail.received([], snapshot: "s2")
        #expect(tail.isComplete)
        tail.disconnected()
        #expect(!tail.isComplete)
    }

    /// Every commit wakes; a read that has begun continues at once.
    @Test func looksAreAnIntervalApart() {
        var tail = RevocationTail(pageRows: 1, interval: .milliseconds(250))
        tail.connected()
        #expect(query(&tail, at: 1_000) == [nil, nil])
        tail.received(page("a"), snapshot: "s1")
        #expect(query(&tail, at: 1_001) == [nil, "a"])
        tail.received([], snapshot: "s2")
        tail.wake()
        #expect(query(&tail, at: 1_250) == nil)
        #expect(tail.pause(at: Instant(nanoseconds: 1).advanced(by: .milliseconds(1_250))) == .milliseconds(1))
        #expect(query(&tail, at: 1_251) == ["s1", nil])
        tail.received(page("b"), snapshot: "s3")
        #expect(query(&tail, at: 1_251) == ["s1", "b"])
        tail.disconnected()
        tail.connected()
        #expect(query(&tail, at: 1_252) == [nil, nil])
    }
}
