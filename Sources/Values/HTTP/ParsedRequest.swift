import Bytes

/// The supported methods; all others are answered 501.
package enum Method: Sendable {
    case get, head, post, put, patch, delete, options

    init?(_ name: UnsafeRawBufferPointer) {
        if name.equals("GET") {
            self = .get
        } else if name.equals("POST") {
            self = .post
        } else if name.equals("HEAD") {
            self = .head
        } else if name.equals("OPTIONS") {
            self = .options
        } else if name.equals("PUT") {
            self = .put
        } else if name.equals("PATCH") {
            self = .patch
        } else if name.equals("DELETE") {
            self = .delete
        } else {
            return nil
        }
    }

    /// The method's name in requests.
    package var name: StaticString {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .patch: "PATCH"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        }
    }
}

/// One complete request, pointing into the buffer it was parsed from: valid until the buffer changes.
package struct ParsedRequest {
    /// The method.
    package let method: Method
    /// The minor version: 0 for HTTP/1.0, 1 for anything newer.
    package let minorVersion: Int
    /// The target's path, not percent-decoded; begins with a slash, or is `*`.
    package let path: UnsafeRawBufferPointer
    /// The target's text after the question mark; nil without one.
    package let query: UnsafeRawBufferPointer?
    /// The decoded body; empty when there is none.
    package let body: UnsafeRawBufferPointer
    /// Bytes that the request took: the next one begins after them.
    package let consumed: Int

    let bytes: UnsafeRawBufferPointer
    let fields: FieldTable

    /// The value of the first field `name` (lower case).
    package func field(_ name: StaticString) -> UnsafeRawBufferPointer? { fields.value(name, in: bytes) }

    /// The value of the next field `name` (lower case) from `index` on; `index` is 0 for the first.
    package func field(_ name: StaticString, from index: inout Int) -> UnsafeRawBufferPointer? {
        fields.value(name, in: bytes, from: &index)
    }

    /// The value of the only field `name` (lower case); nil when there is none or more than one.
    package func onlyField(_ name: StaticString) -> UnsafeRawBufferPointer? {
        var index = 0
        guard let value = fields.value(name, in: bytes, from: &index) else { return nil }
        return fields.value(name, in: bytes, from: &index) == nil ? value : nil
    }

    /// True when a comma-separated field `name` has the member `token`, both in lower case.
    package func field(_ name: StaticString, contains token: StaticString) -> Bool {
        fields.contains(name, token: token, in: bytes)
    }

    /// The host, and its port if it is named, that the request is for: in absolute-form the target names it, whatever the
    /// field `Host` says (RFC 9112 §3.2.2). Nil where neither is there.
    package var host: UnsafeRawBufferPointer? {
        let start = bytes.baseAddress.flatMap { all in path.baseAddress.map { $0 - all } } ?? 0
        guard start > 0, bytes[start - 1] != 0x20 else { return field("host") }
        var begin = start
        while begin > 0, bytes[begin - 1] != UInt8(ascii: "/") { begin -= 1 }
        return bytes.part(begin..<start)
    }

    /// The host without its port.
    private var hostName: UnsafeRawBufferPointer? {
        host.map { host in
            let colon = host.lastIndex(of: UInt8(ascii: ":"))
            let hasPort = colon.map { host.part($0 + 1..<host.count).allSatisfy { $0.isASCIIDigit } } ?? false
            return host.part(0..<(hasPort ? colon ?? host.count : host.count))
        }
    }

    /// Whether it names this machine as its host, and not a name of another host's page that leads here (DNS rebinding).
    package var namesLoopback: Bool {
        guard let name = hostName else { return false }
        // An address cannot be made to lead elsewhere, and all of 127.0.0.0/8 is this machine (RFC 1122 §3.2.1.3).
        let isAddress = name.hasPrefix("127.") && name.allSatisfy { $0.isASCIIDigit || $0 == UInt8(ascii: ".") }
        return isAddress || name.equals("[::1]") || name.equalsIgnoringCase("localhost")
    }

    /// Whether it names its host by an address, which no page's name can lead to.
    package var namesAddress: Bool {
        guard let name = hostName else { return false }
        let parts = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return name.first == UInt8(ascii: "[")
            || parts.count == 4 && parts.allSatisfy { 1...3 ~= $0.count && $0.allSatisfy(\.isASCIIDigit) }
    }

    /// Whether the connection may serve another request after this one (RFC 9112 §9.3).
    package var keepsAlive: Bool {
        if field("connection", contains: "close") { return false }
        return minorVersion > 0 || field("connection", contains: "keep-alive")
    }

    /// The credentials of an `Authorization: Bearer` field (RFC 6750 §2.1).
    package var bearerToken: UnsafeRawBufferPointer? {
        guard let value = field("authorization"), value.count > 7 else { return nil }
        guard value.part(0..<7).equalsIgnoringCase("bearer ") else { return nil }
        let token = value.part(7..<value.count).trimmingBlanks
        return token.count > 0 ? token : nil
    }

    /// Whether it says who sends it, by a bearer token or by a signature of Pusher's HTTP API; whether that is good is
    /// another matter.
    package var claimsIdentity: Bool {
        if let query {
            // SHA-256 in hexadecimal digits, which clients write last.
            let end = max(0, query.count - 64)
            if query.part(max(0, end - 15)..<end).equals("auth_signature=") { return true }
            if FormReader.rawValue("auth_signature", in: query) != nil { return true }
        }
        return bearerToken != nil
    }
}
