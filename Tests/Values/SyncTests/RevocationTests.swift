import Clock
import Sync
import TestSupport
import Testing

@Suite struct RevocationTests {
    private func revoked(_ entries: (String, Int64)...) -> RevocationTable {
        var table = RevocationTable()
        _ = table.insert(entries.map { Revocation(userID: $0, before: $1) })
        return table
    }

    @Test func whatWasIssuedBeforeIsRefused() {
        let table = revoked(("u", 5_500_000))
        #expect(table.refuses("u", issuedAt: 4))
        #expect(table.refuses("u", issuedAt: 5), "within that second: older, as far as anybody can tell")
        #expect(!table.refuses("u", issuedAt: 6))
        #expect(table.refuses("u", issuedAt: nil), "nobody knows when")
        #expect(!table.refuses("v", issuedAt: nil))
        #expect(!revoked(("u", 5_000_000)).refuses("u", issuedAt: 5), "at that moment is not before it")
    }

    @Test(arguments: [Int64.min, .max, 9_223_372_036_855, -9_223_372_036_855])
    func timesBeyondReasonAreClamped(_ issuedAt: Int64) {
        #expect(revoked(("u", 5)).refuses("u", issuedAt: issuedAt) == (issuedAt < 0))
    }

    @Test func usersAreComparedByBytes() {
        let table = revoked(("\u{E9}", 1_000_000))
        #expect(table.refuses("\u{E9}", issuedAt: 0))
        #expect(!table.refuses("e\u{301}", issuedAt: 0))
    }

    @Test func theLatestWinsAndOnlyThatIsNews() {
        var table = RevocationTable()
        let first = [Revocation(userID: "u", before: 5), Revocation(userID: "v", before: 7)]
        #expect(table.insert(first).news == first)
        #expect(table.insert(first).news.isEmpty)
        let later = Revocation(userID: "u", before: 6)
        #expect(table.insert([Revocation(userID: "u", before: 4), later]).news == [later])
        #expect(table.count == 2)
    }

    @Test func theOldestAreLetGoBeyondTheBound() {
        var table = RevocationTable(countMax: 32)
        for moment in (1...32).shuffled() {
            #expect(table.insert([Revocation(userID: "\(moment)", before: Int64(moment))]).dropped == 0)
        }
        #expect(table.count == 32)
        #expect(table.insert([Revocation(userID: "33", before: 33)]).dropped == 3)
        #expect(table.count == 30)
        #expect((1...33).filter { table.refuses("\($0)", issuedAt: nil) } == Array(4...33))
        #expect(RevocationTable().countMax == 100_000)
    }

    /// An operator may revoke a whole table of users at one moment.
    @Test func manyOfOneMomentAreLetGoToTheBoundAndNotAll() {
        var table = RevocationTable(countMax: 16)
        let many = (0..<40).map { Revocation(userID: "\($0)", before: 9) }
        #expect(table.insert(many + [Revocation(userID: "last", before: 10)]).dropped == 26)
        #expect(table.count == 15)
        #expect(table.refuses("last", issuedAt: nil))
    }

    // MARK: Times

    @Test func timesAddUpAndClamp() {
        let time = UnixTime(seconds: 1_000)
        #expect(time.advanced(by: .milliseconds(-1)).microseconds == 999_999_000)
        #expect(time.advanced(by: .microseconds(1)).microseconds == 1_000_000_001)
        #expect(UnixTime(seconds: .max).microseconds == .max)
        #expect(UnixTime(seconds: .min).microseconds == .min)
        #expect(UnixTime(seconds: .max).advanced(by: .seconds(25)).microseconds == .max)
        #expect(UnixTime(seconds: .min).advanced(by: .seconds(-60)).microseconds == .min)
        #expect(time.advanced(by: .seconds(Int64.max)).microseconds == .max)
        #expect(UnixTime(seconds: -1).advanced(by: .seconds(Int64.min)).microseconds == .min)
        #expect(time.duration(until: UnixTime(seconds: 1_002)) == .seconds(2))
        #expect(time.duration(until: UnixTime(seconds: 999)) == .zero)
        #expect(UnixTime(seconds: .min).duration(until: UnixTime(seconds: .max)) == .microseconds(Int64.max))
    }
}
