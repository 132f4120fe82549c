import Bytes

/// The contents of the request line and fields, collected line by line as offsets.
struct RequestHead: Sendable {
    var path = 0..<0
    var query: Range<Int>?
    // Small fields together, to avoid padding: every connection has one of these.
    var method = Method.get
    var isChunked = false
    var expectsContinue = false
    private var hasLength = false
    private var hasHost = false
    private var hasAuthorization = false
    var minorVersion = 1
    var fields = FieldTable()
    var contentLength = 0

    /// Reads `method SP target SP version` (RFC 9112 §3).
    mutating func read(requestLine line: Range<Int>, of bytes: UnsafeRawBufferPointer) throws(HTTPError) {
        let end = line.upperBound
        guard let space = bytes.firstIndex(of: 0x20, from: line.lowerBound), space < end else {
            throw .malformedRequestLine
        }
        let name = bytes.part(line.lowerBound..<space)
        guard name.count > 0, name.allSatisfy({ $0.isTokenCharacter }) else { throw .malformedRequestLine }
        guard let second = bytes.firstIndex(of: 0x20, from: space + 1), second < end else {
            throw .malformedRequestLine
        }
        let version = bytes.part(second + 1..<end)
        guard version.count == 8, version.hasPrefix("HTTP/"), version[5].isASCIIDigit, version[6] == 0x2E,
            version[7].isASCIIDigit
        else { throw .malformedRequestLine }
        guard version[5] == UInt8(ascii: "1") else { throw .unsupportedVersion }
        minorVersion = version[7] == UInt8(ascii: "0") ? 0 : 1
        guard let method = Method(name) else { throw .unknownMethod }
        self.method = method
        try read(target: space + 1..<second, of: bytes)
    }

    /// Reads origin-form, absolute-form or, for OPTIONS, the asterisk (RFC 9112 §3.2).
    private mutating func read(target: Range<Int>, of bytes: UnsafeRawBufferPointer) throws(HTTPError) {
        guard target.count > 0, FieldText.isTarget(target, of: bytes) else { throw .malformedTarget }
        var start = target.lowerBound
        let text = bytes.part(target)
        if text.equals("*") {
            guard method == .options else { throw .malformedTarget }
            path = target
            return
        }
        if text[0] != UInt8(ascii: "/") {
            guard text.hasPrefix("http://") || text.hasPrefix("https://") else { throw .malformedTarget }
            let authority = start + (text.hasPrefix("http://") ? 7 : 8)
            guard let slash = bytes.firstIndex(of: UInt8(ascii: "/"), from: authority), slash < target.upperBound,
                slash > authority
            else { throw .malformedTarget }
            start = slash
        }
        if let mark = bytes.firstIndex(of: UInt8(ascii: "?"), from: start), mark < target.upperBound {
            path = start..<mark
            query = mark + 1..<target.upperBound
        } else {
            path = start..<target.upperBound
        }
    }

    /// Reads one field, and records those that frame the message.
    mutating func read(
        field line: Range<Int>, of bytes: UnsafeRawBufferPointer, limits: HTTPLimits
    ) throws(HTTPError) {
        let (name, value) = try fields.append(line: line, of: bytes, limits: limits)
        switch name.count {
        case 4 where name.equalsIgnoringCase("host"):
            guard !hasHost else { throw .repeatedHost }
            for byte in value {
                guard byte > 0x20, byte < 0x7F, byte != UInt8(ascii: ","), byte != UInt8(ascii: "/") else {
                    throw .malformedHost
                }
            }
            hasHost = true
        case 13 where name.equalsIgnoringCase("authorization"):
            // Whose request it is must not depend on which of two is read.
            guard !hasAuthorization else { throw .repeatedAuthorization }
            hasAuthorization = true
        case 14 where name.equalsIgnoringCase("content-length"):
            guard !hasLength else { throw .repeatedLength }
            guard let length = value.decimalValue else {
                throw value.count > 0 && value.allSatisfy({ $0.isASCIIDigit }) ? .bodyTooLarge : .malformedLength
            }
            hasLength = true
            contentLength = length
        case 17 where name.equalsIgnoringCase("transfer-encoding"):
            // Exactly one coding: `chunked, chunked` or `gzip, chunked` would need a decoder that we lack.
            guard !isChunked, value.equalsIgnoringCase("chunked") else { throw .unknownTransferCoding }
            isChunked = true
        case 6 where name.equalsIgnoringCase("expect"):
            guard value.equalsIgnoringCase("100-continue") else { throw .unknownExpectation }
            expectsContinue = minorVersion > 0
        default: break
        }
    }

    /// Checks that need the whole head (RFC 9112 §3.2, §6.1, §6.3).
    func finish(in bytes: UnsafeRawBufferPointer) throws(HTTPError) {
        if minorVersion > 0, !hasHost { throw .missingHost }
        if isChunked, hasLength { throw .lengthAndChunks }
        if isChunked, minorVersion == 0 { throw .chunksBeforeHTTP11 }
    }
}
