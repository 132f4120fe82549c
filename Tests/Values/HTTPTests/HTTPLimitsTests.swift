import Bytes
import HTTP
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct HTTPLimitsTests {
    private func target(_ count: Int) -> String {
        "GET /" + String(repeating: "a", count: count - 16) + " HTTP/1.1\r\n"
    }

    @Test func requestLine() {
        #expect(failure(target(7168) + "Host: h\r\n\r\n") == nil)
        #expect(failure(target(7169) + "Host: h\r\n\r\n") == .targetTooLong)
        #expect(failure(String(repeating: "a", count: 7167)) == nil)
        #expect(failure(String(repeating: "a", count: 7168)) == .targetTooLong)
    }

    @Test func theRequestLineGrowsWithTheHead() {
        var limits = HTTPLimits()
        limits.headBytes = 16_384
        #expect(failure(target(14_336) + "Host: h\r\n\r\n", limits: limits) == nil)
        #expect(failure(target(14_337) + "Host: h\r\n\r\n", limits: limits) == .targetTooLong)
    }

    @Test func head() {
        let start = "GET / HTTP/1.1\r\nHost: h\r\nA: "
        let fill = String(repeating: "b", count: 8192 - start.utf8.count - 4)
        #expect(failure(start + fill + "\r\n\r\n") == nil)
        #expect(failure(start + fill + "b\r\n\r\n") == .headTooLarge)
        #expect(failure(start + fill + "bbbb") == nil)
        #expect(failure(start + fill + "bbbbb") == .headTooLarge)
    }

    @Test func fieldCount() {
        let start = "GET / HTTP/1.1\r\nHost: h\r\n"
        #expect(failure(start + String(repeating: "a: b\r\n", count: 63) + "\r\n") == nil)
        #expect(failure(start + String(repeating: "a: b\r\n", count: 64) + "\r\n") == .tooManyFields)
    }

    @Test func body() {
        var limits = HTTPLimits()
        limits.bodyBytes = 10
        let start = "POST / HTTP/1.1\r\nHost: h\r\n"
        #expect(failure(start + "Content-Length: 10\r\n\r\n0123456789", limits: limits) == nil)
        #expect(failure(start + "Content-Length: 11\r\n\r\n", limits: limits) == .bodyTooLarge)
        let chunked = start + "Transfer-Encoding: chunked\r\n\r\n"
        #expect(failure(chunked + "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", limits: limits) == nil)
        #expect(failure(chunked + "5\r\n01234\r\n6\r\n", limits: limits) == .bodyTooLarge)
    }

    @Test func chunkOverhead() {
        var limits = HTTPLimits()
        limits.bodyBytes = 1000
        limits.headBytes = 100
        let start = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        #expect(failure(start + String(repeating: "1\r\na\r\n", count: 350) + "0\r\n\r\n", limits: limits) == nil)
        #expect(
            failure(start + String(repeating: "1\r\na\r\n", count: 351) + "0\r\n\r\n", limits: limits) == .bodyTooLarge)
        // Refused before it arrives: at the size line, not after the chunk.
        let chunks = String(repeating: "1\r\na\r\n", count: 349)
        #expect(failure(start + chunks + "1\r\n", limits: limits) == nil)
        #expect(failure(start + chunks + "2\r\n", limits: limits) == .bodyTooLarge)
        let extended = String(repeating: "e", count: 252)
        #expect(failure(start + "1;" + extended + "\r\na\r\n0\r\n\r\n", limits: limits) == nil)
        #expect(failure(start + "1;" + extended + "x\r\na", limits: limits) == .malformedChunk)
        #expect(failure(start + "1;" + extended + "x", limits: limits) == nil)
        #expect(failure(start + "1;" + extended + "xx", limits: limits) == .malformedChunk)
        #expect(failure(start + "0\r\nA: " + String(repeating: "b", count: 93) + "\r\n\r\n", limits: limits) == nil)
        #expect(
            failure(start + "0\r\nA: " + String(repeating: "b", count: 94) + "\r\n\r\n", limits: limits)
                == .headTooLarge)
    }

    @Test func errorsHaveTheirStatus() {
        let expected: [(HTTPError, Int)] = [
            (.malformedField, 400), (.missingHost, 400), (.bodyTooLarge, 413), (.targetTooLong, 414),
            (.unknownExpectation, 417), (.headTooLarge, 431), (.tooManyFields, 431), (.unknownMethod, 501),
            (.unknownTransferCoding, 501), (.unsupportedVersion, 505),
        ]
        for (error, code) in expected { #expect(error.status.code == code) }
    }
}
