import Bytes
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ByteWriterTests {
    @Test func growsAndHandsOver() {
        var writer = ByteWriter(capacity: 0)
        var expected: [UInt8] = []
        for index in 0..<5000 {
            writer.append(UInt8(truncatingIfNeeded: index))
            expected.append(UInt8(truncatingIfNeeded: index))
        }
        let shared = writer.finish()
        #expect(shared.array == expected)
        #expect(shared.count == 5000)
    }

    @Test func appendsEveryKind() {
        var writer = ByteWriter()
        writer.append("literal ")
        writer.append(utf8: "string é ")
        writer.append([0x41, 0x42])
        writer.append(SharedBytes.copy(" shared "))
        withBytes("raw ") { writer.append($0) }
        withBytes([0x00, 0xAB, 0xFF]) { writer.append(hex: $0) }
        writer.append(capacity: 10) { room in
            room[0] = 0x21
            return 1
        }
        #expect(writer.string == "literal string é AB shared raw 00abff!")
    }

    @Test(arguments: [0, 1, 9, 10, 99, 12_345_678, Int64.max, -1, Int64.min])
    func writesDecimals(number: Int64) {
        var writer = ByteWriter()
        writer.append(decimal: number)
        #expect(writer.string == String(number))
    }

    @Test func writesDecimalsOfEveryLength() {
        var power: UInt64 = 1
        for _ in 0..<20 {
            for number in [power - 1, power, power + 1, power / 3, power / 9 * 8] {
                var writer = ByteWriter(capacity: 16)
                writer.append(decimal: number)
                #expect(writer.string == String(number))
            }
            power = power.multipliedReportingOverflow(by: 10).partialValue
        }
        for number in 0..<10_000 as Range<UInt64> {
            var writer = ByteWriter(capacity: 16)
            writer.append(decimal: number * 10_000 + (9_999 - number))
            #expect(writer.string == String(number * 10_000 + (9_999 - number)))
        }
    }

    @Test func writesTheLargestDecimal() {
        var writer = ByteWriter()
        writer.append(decimal: UInt64.max)
        #expect(writer.string == "18446744073709551615")
    }

    @Test(arguments: [10, 600, 5000]) func finishesBehindReservedRoom(payload: Int) {
        var writer = ByteWriter(capacity: 4096)
        writer.append([UInt8](repeating: 1, count: 10))
        writer.append([UInt8](repeating: 2, count: payload))
        #expect(writer.finish(from: 8).array == [1, 1] + [UInt8](repeating: 2, count: payload))
    }

    @Test func truncatesAndStartsAgain() {
        var writer = ByteWriter()
        writer.append("abc")
        writer.truncate(to: 2)
        writer.append("d")
        #expect(writer.string == "abd")
        writer.removeAll()
        #expect(writer.count == 0)
        writer.append("new")
        #expect(writer.copy().string == "new")
        #expect(writer.array == Array("new".utf8))
    }

    @Test func emptyBlocksAreFine() {
        #expect(ByteWriter().finish().isEmpty)
        #expect(SharedBytes.copy("").array == [])
        let block = SharedBytes.copy("same")
        #expect(block === block)
    }
}
