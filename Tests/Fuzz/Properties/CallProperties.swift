import Bytes
import Pusher

/// Queries of HTTP API calls: the text that is signed is what an independent reading finds, and what was signed so is
/// verified, however it is sent.
enum CallProperties {
    private static let app = AppCredentials(key: "key", secret: "secret")
    private static let now: Int64 = 1_700_000_000
    private static let path: [UInt8] = Array("/apps/1/channels/a%40b".utf8)

    static func check(_ bytes: [UInt8]) throws(Violation) {
        for plus in [CallParameters.Plus.sign, .space] {
            let pairs = pairs(of: bytes, plusIsSpace: plus == .space)
            switch read(bytes, plus) {
            case .failure(let refusal):
                try hold(refusal == .tooManyParameters && pairs.count > CallLimits().parametersMax, "\(refusal)")
            case .success(let parameters):
                try hold(pairs.count <= CallLimits().parametersMax, "\(pairs.count) parameters")
                try checkCanonical(parameters, pairs)
                try checkValues(parameters, pairs)
            }
        }
        try checkSigned(bytes)
        try checkUnsigned(bytes)
    }

    private static func read(_ bytes: [UInt8], _ plus: CallParameters.Plus) -> Result<CallParameters, CallRefusal> {
        withView(bytes) { query in
            Result { () throws(CallRefusal) in try CallParameters(query: query, plus: plus) }
        }
    }

    // MARK: Another reading

    /// The pairs, decoded, in their order.
    private static func pairs(of query: [UInt8], plusIsSpace: Bool) -> [(name: [UInt8], value: [UInt8])] {
        query.split(separator: UInt8(ascii: "&")).map { pair in
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let name = decode(parts[0], plusIsSpace).map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
            return (name, parts.count > 1 ? decode(parts[1], plusIsSpace) : [])
        }
    }

    private static func decode(_ text: ArraySlice<UInt8>, _ plusIsSpace: Bool) -> [UInt8] {
        var rest = text
        var decoded: [UInt8] = []
        while let byte = rest.popFirst() {
            let digits = rest.prefix(2)
            if byte == UInt8(ascii: "%"), digits.count == 2, digits.allSatisfy({ $0.hexValue != nil }) {
                decoded.append(digits.reduce(0) { $0 << 4 | ($1.hexValue ?? 0) })
                rest = rest.dropFirst(2)
            } else {
                decoded.append(plusIsSpace && byte == UInt8(ascii: "+") ? 0x20 : byte)
            }
        }
        return decoded
    }

    private static func checkCanonical(
        _ parameters: CallParameters, _ pairs: [(name: [UInt8], value: [UInt8])]
    ) throws(Violation) {
        let signed = written { parameters.append(canonicalTo: &$0) { $0.equals("auth_signature") } }
        var kept = pairs.filter { $0.name != Array("auth_signature".utf8) }.enumerated().map { ($0, $1) }
        kept.sort { $0.1.name == $1.1.name ? $0.0 < $1.0 : $0.1.name.lexicographicallyPrecedes($1.1.name) }
        let expected = kept.map { $0.1.name + [UInt8(ascii: "=")] + $0.1.value }.joined(separator: [UInt8(ascii: "&")])
        try hold(signed == Array(expected), "another text is signed")
    }

    private static func checkValues(
        _ parameters: CallParameters, _ pairs: [(name: [UInt8], value: [UInt8])]
    ) throws(Violation) {
        let named = pairs.filter { $0.name == Array("channels[]".utf8) }.map(\.value)
        try hold(parameters.values("channels[]") == named, "other values than were sent")
        let first = pairs.first { $0.name == Array("data".utf8) }?.value
        try hold(parameters.withValue("data") { [UInt8]($0) } == first, "another value than was sent")
        try hold(parameters.string("data") == first?.strictText, "text that is UTF-8 to one reader only")
    }

    // MARK: Signatures

    private static let fixed = "auth_key=key&auth_timestamp=1700000000&auth_version=1.0"

    /// What is signed is verified, and no other secret's signature is.
    private static func checkSigned(_ bytes: [UInt8]) throws(Violation) {
        let query = bytes + Array("&\(fixed)&body_md5=d41d8cd98f00b204e9800998ecf8427e".utf8)
        guard case .success(let parameters) = read(query, .sign), !namesWhatIsFixed(bytes) else { return }
        let text = written { parameters.append(canonicalTo: &$0) { _ in false } }
        guard let text = text.strictText else { return }
        for path in ["/apps/1/channels/a%40b", "/apps/1/channels/a@b"] {
            let code = app.sign(call: "POST", path: path, parameters: text)
            switch verify(query + Array("&auth_signature=\(code)".utf8), []) {
            case .success(let call): try hold(call.timestamp == now, "another time than was said")
            // The signature itself was one parameter too many.
            case .failure(.tooManyParameters): continue
            case .failure(let refusal): throw Violation(message: "what was signed is refused: \(refusal)")
            }
            let forged = AppCredentials(key: "key", secret: "other").sign(call: "POST", path: path, parameters: text)
            guard case .failure(.wrongSignature) = verify(query + Array("&auth_signature=\(forged)".utf8), []) else {
                throw Violation(message: "another secret's signature is good")
            }
        }
    }

    /// Nobody guesses a signature.
    private static func checkUnsigned(_ bytes: [UInt8]) throws(Violation) {
        for body in [[], bytes] {
            guard case .failure(let refusal) = verify(bytes, body) else {
                throw Violation(message: "a query that nobody has signed is good")
            }
            try hold(!refusal.message.description.isEmpty, "a refusal without a sentence")
        }
    }

    private static func verify(_ query: [UInt8], _ body: [UInt8]) -> Result<SignedCall, CallRefusal> {
        withView(path) { path in
            withView(query) { query in
                withView(body) { body in
                    Result { () throws(CallRefusal) in
                        try SignedCall(
                            SignedCall.Request(method: "POST", path: path, query: query, body: body), by: app, now: now)
                    }
                }
            }
        }
    }

    private static func namesWhatIsFixed(_ bytes: [UInt8]) -> Bool {
        pairs(of: bytes, plusIsSpace: false).contains {
            $0.name.starts(with: Array("auth_".utf8)) || $0.name == Array("body_md5".utf8)
        }
    }
}
