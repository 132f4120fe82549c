import Testing

@testable import Postgres

@Suite struct LogDeduplicatorTests {
    @Test func eachThingIsToldOnceUntilAConnectionIsThere() {
        let metrics = PostgresMetrics()
        let (reading, writing) = (metrics.meter(.tail).complaints, metrics.meter(.write).complaints)
        #expect(reading.isNew("refused"))
        #expect(!writing.isNew("refused"), "of all roles")
        #expect(writing.isNew("no such role"))
        #expect(!reading.isNew("refused"), "in turn, too")
        writing.forget()
        #expect(reading.isNew("refused"))
    }

    @Test func textsAreBounded() {
        let complaints = LogDeduplicator()
        for number in 0..<LogDeduplicator.textsMax { #expect(complaints.isNew("\(number)")) }
        #expect(!complaints.isNew("0"))
        #expect(complaints.isNew("one more"))
        #expect(complaints.isNew("0"), "all was forgotten")
    }
}
