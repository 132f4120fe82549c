import Bytes
import Digests

/// Limits of HTTP API calls. Each is the largest value allowed.
package struct CallLimits: Sendable, Equatable {
    /// Parameters of one query. A publish may list its channels there, up to 100.
    package var parametersMax = 128
    /// Seconds that a call's timestamp may differ from the hub's clock, either way (Pusher: 600).
    package var secondsApart: Int64 = 600

    /// Pusher's figures.
    package init() {}
}

/// Why a call is not accepted as the app's. It reveals nothing of the call, and nothing that helps to sign one.
package enum CallRefusal: Error, Equatable, Sendable, CaseIterable {
    case tooManyParameters
    /// A signature parameter comes twice: it is ambiguous.
    case repeatedParameter
    case wrongKey, wrongVersion, noTimestamp, untimely, noBodyDigest, wrongBodyDigest, noSignature, wrongSignature

    /// A sentence for the backend's developer.
    package var message: StaticString {
        switch self {
        case .tooManyParameters: "The query has more than 128 parameters."
        case .repeatedParameter: "auth_key, auth_timestamp, auth_version, auth_signature and body_md5 come once each."
        case .wrongKey: "auth_key is missing or not the key of this app."
        case .wrongVersion: "auth_version is missing or not 1.0."
        case .noTimestamp: "auth_timestamp is missing or not in whole seconds since 1970."
        case .untimely:
            "auth_timestamp is more than 600 seconds from this hub's clock: a call kept for too long, or a clock that is wrong."
        case .noBodyDigest: "body_md5 is missing: a call with a body carries the body's MD5 in hexadecimal."
        case .wrongBodyDigest: "body_md5 is not the MD5 of the body that came."
        case .noSignature: "auth_signature is missing."
        case .wrongSignature:
            "auth_signature is not the app's: HMAC-SHA-256 by its secret, in hexadecimal, of method, path and sorted parameters."
        }
    }
}

/// A call with a valid signature of the app.
package struct SignedCall: Sendable {
    /// The query's parameters as they were signed.
    package let parameters: CallParameters
    /// Seconds since 1970, as sent by the caller.
    package let timestamp: Int64
    /// The first bytes of the signature: equal only for equal calls.
    package let mark: Mark

    /// Sixteen bytes of a signature.
    package struct Mark: Hashable, Sendable {
        let high: UInt64
        let low: UInt64

        /// Its bytes.
        package var bytes: [UInt8] {
            withUnsafeBytes(of: high.bigEndian) { Array($0) } + withUnsafeBytes(of: low.bigEndian) { Array($0) }
        }

        /// From a verified signature's hexadecimal digits, at least 32.
        init(_ digits: UnsafeRawBufferPointer) {
            func word(_ range: Range<Int>) -> UInt64 {
                range.reduce(0) { $0 << 4 | UInt64(digits[$1].hexValue ?? 0) }
            }
            (high, low) = (word(0..<16), word(16..<32))
        }
    }

    /// The parts of an HTTP request that a signature covers, pointing into it.
    package struct Request {
        let method: StaticString
        let path: UnsafeRawBufferPointer
        let query: UnsafeRawBufferPointer
        let body: UnsafeRawBufferPointer

        /// - Parameters:
        ///   - method: in capitals.
        ///   - path: as received, without the query.
        package init(
            method: StaticString, path: UnsafeRawBufferPointer, query: UnsafeRawBufferPointer,
            body: UnsafeRawBufferPointer
        ) {
            (self.method, self.path, self.query, self.body) = (method, path, query, body)
        }
    }

    /// Verifies a request. Libraries may escape paths and values before or after they sign, or not at all, so each possible
    /// reading of the request is tried.
    ///
    /// - Parameter now: seconds since 1970.
    package init(
        _ request: Request, by credentials: AppCredentials, now: Int64, limits: CallLimits = CallLimits()
    ) throws(CallRefusal) {
        let plain = try CallParameters(query: request.query, limits: limits)
        timestamp = try Self.checkedTimestamp(plain, credentials, now: now, limits)
        if let mark = try Self.verifiedMark(plain, request, credentials) {
            (parameters, self.mark) = (plain, mark)
        } else {
            guard request.query.firstIndex(of: UInt8(ascii: "+"), from: 0) != nil else { throw .wrongSignature }
            let spaced = try CallParameters(query: request.query, plus: .space, limits: limits)
            guard let mark = try Self.verifiedMark(spaced, request, credentials) else { throw .wrongSignature }
            (parameters, self.mark) = (spaced, mark)
        }
        // Last: the body may be long, and only a caller with the secret makes us hash it.
        try Self.checkBody(request.body, parameters)
    }

    /// Checks all but the signature and the body. These values have no plus sign.
    private static func checkedTimestamp(
        _ parameters: CallParameters, _ credentials: AppCredentials, now: Int64, _ limits: CallLimits
    ) throws(CallRefusal) -> Int64 {
        guard !parameters.repeatsOwn else { throw .repeatedParameter }
        guard parameters.withValue(.key, { credentials.isKey($0) }) ?? false else { throw .wrongKey }
        guard parameters.withValue(.version, { $0.equals("1.0") }) ?? false else { throw .wrongVersion }
        guard let seconds = parameters.withValue(.timestamp, { $0.decimalValue }) ?? nil else {
            throw .noTimestamp
        }
        let (apart, isFar) = now.subtractingReportingOverflow(Int64(seconds))
        guard !isFar, apart.magnitude <= limits.secondsApart.magnitude else { throw .untimely }
        return Int64(seconds)
    }

    private static func checkBody(
        _ body: UnsafeRawBufferPointer, _ parameters: CallParameters
    ) throws(CallRefusal) {
        // Some libraries send the MD5 of an empty body: when it is there, it is checked.
        if let matches = parameters.withValue(.bodyDigest, { MD5(body).matches(hex: $0) }) {
            guard matches else { throw .wrongBodyDigest }
        } else if body.count > 0 {
            throw .noBodyDigest
        }
    }

    /// The mark of the signature when it signs these parameters and the path, as received or decoded; otherwise nil.
    private static func verifiedMark(
        _ parameters: CallParameters, _ request: Request, _ credentials: AppCredentials
    ) throws(CallRefusal) -> Mark? {
        var rest = ByteWriter(capacity: request.query.count + 8)
        parameters.append(canonicalTo: &rest) { $0.equals("auth_signature") }
        let mark: Mark?? = rest.withUnsafeBytes { rest in
            parameters.withValue(.signature) { digits in
                func isSigned(_ path: UnsafeRawBufferPointer) -> Bool {
                    credentials.verify(digits, ofCall: request.method, path, rest)
                }
                if isSigned(request.path) { return Mark(digits) }
                guard request.path.firstIndex(of: UInt8(ascii: "%"), from: 0) != nil else { return nil }
                var decoded: [UInt8] = []
                LenientPercent.decode(request.path, to: &decoded)
                return decoded.withUnsafeBytes { isSigned($0) } ? Mark(digits) : nil
            }
        }
        guard let mark else { throw .noSignature }
        return mark
    }
}

extension AppCredentials {
    /// True when `digits` are the hexadecimal code of `METHOD\nPATH\nPARAMETERS` by one of the secrets.
    fileprivate func verify(
        _ digits: UnsafeRawBufferPointer, ofCall method: StaticString, _ path: UnsafeRawBufferPointer,
        _ parameters: UnsafeRawBufferPointer
    ) -> Bool {
        verify(digits: digits) { secret in
            var hash = secret.begin()
            hash.update(method.bytes)
            hash.update(("\n" as StaticString).bytes)
            hash.update(path)
            hash.update(("\n" as StaticString).bytes)
            hash.update(parameters)
            return secret.finish(hash)
        }
    }

    /// The signature of a call, for load tools and tests.
    ///
    /// - Parameter parameters: `name=value` sorted by name, joined by `&`, without the signature.
    package func sign(call method: StaticString, path: String, parameters: String) -> String {
        var message = ByteWriter(capacity: 256)
        message.append(method)
        message.append("\n")
        message.append(utf8: path)
        message.append("\n")
        message.append(utf8: parameters)
        return message.withUnsafeBytes { code(ofText: $0) }
    }
}
