import Testing

@testable import Reactor

@Suite struct ClientHelloLimitTests {
    private static let max = ClientHelloLimit.helloBytesMax
    private static let changeOfCipher: [UInt8] = [0x14, 3, 3, 0, 1, 1]

    private func record(type: UInt8 = 0x16, _ body: some Collection<UInt8>) -> [UInt8] {
        [type, 3, 1, UInt8(body.count >> 8), UInt8(body.count & 0xff)] + body
    }

    private func message(_ type: UInt8 = 1, length: Int, of bodyCount: Int) -> [UInt8] {
        let header = [type, UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff)]
        // Bytes that would begin a long hello elsewhere.
        return header + [UInt8](repeating: 1, count: bodyCount)
    }

    private func isTooLong(_ bytes: [UInt8], isOldVersion: Bool = false) -> Bool {
        var watch = ClientHelloLimit()
        return bytes.withUnsafeBytes { watch.isTooLong($0, isOldVersion: isOldVersion) }
    }

    /// The result is the same wherever the stream is cut in two, and byte by byte.
    private func isTooLongInPieces(_ bytes: [UInt8], isOldVersion: Bool = false) -> Bool {
        var watch = ClientHelloLimit()
        let byByte = bytes.contains { byte in
            withUnsafeBytes(of: byte) { watch.isTooLong($0, isOldVersion: isOldVersion) }
        }
        for cut in 1..<min(bytes.count, 60) {
            var watch = ClientHelloLimit()
            let isAny = [bytes[..<cut], bytes[cut...]].contains { part in
                Array(part).withUnsafeBytes { watch.isTooLong($0, isOldVersion: isOldVersion) }
            }
            #expect(isAny == byByte, "cut at \(cut)")
        }
        #expect(isTooLong(bytes, isOldVersion: isOldVersion) == byByte)
        return byByte
    }

    @Test(arguments: [0, 1, 9]) func theBoundIsToldByTheFirstBytes(_ bodyCount: Int) {
        #expect(!isTooLongInPieces(record(message(length: Self.max, of: bodyCount))))
        #expect(isTooLongInPieces(record(message(length: Self.max + 1, of: bodyCount))))
        #expect(isTooLongInPieces(record(message(length: 131_396, of: bodyCount))))
    }

    /// Some clients split their hello into records of a few bytes to evade inspection.
    @Test(arguments: 1...5) func aMessageMaySpanRecords(_ size: Int) {
        func cut(_ bytes: [UInt8]) -> [UInt8] {
            stride(from: 0, to: bytes.count, by: size).flatMap { record(bytes[$0..<min($0 + size, bytes.count)]) }
        }
        #expect(!isTooLongInPieces(cut(message(length: 300, of: 300))))
        #expect(isTooLongInPieces(cut(message(length: Self.max + 1, of: 20))))
        #expect(isTooLongInPieces(cut(message(length: 300, of: 300) + message(length: Self.max + 1, of: 0))))
    }

    @Test func theSecondHelloIsBoundedToo() {
        let first = record(message(length: 40, of: 40))
        let between: [[UInt8]] = [[], Self.changeOfCipher, record(type: 0x17, [1, 2, 3]), record([])]
        for middle in between {
            #expect(isTooLongInPieces(first + middle + record(message(length: Self.max + 1, of: 0))))
            #expect(!isTooLongInPieces(first + middle + record(message(length: Self.max, of: 7))))
        }
    }

    /// In TLS 1.2, encrypted records have the same type and may begin with any bytes.
    @Test func whatIsEncryptedIsNotJudged() {
        let first = record(message(length: 40, of: 40))
        let encrypted = record([UInt8](repeating: 1, count: 40))
        #expect(isTooLong(first + Self.changeOfCipher + encrypted))
        #expect(!isTooLongInPieces(first + Self.changeOfCipher + encrypted, isOldVersion: true))
        let keys = record(message(0x10, length: 33, of: 33))
        #expect(!isTooLongInPieces(first + keys + Self.changeOfCipher + encrypted, isOldVersion: true))
    }
}
