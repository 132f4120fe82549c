import Bytes
import FoundationEssentials
import JSON

/// The header of a token (RFC 7515 §4), judged before any key is looked up: a demand unknown to the hub must not pass.
struct TokenHeader: Sendable, Equatable {
    /// The algorithm that the token names. It decides which keys are tried, never how one is used.
    let alg: String
    /// The key that the token names, if any.
    let kid: String?

    /// Reads the first part of a token.
    ///
    /// - Throws: `malformed`, also for a repeated name (§4) or a `kid` that is not a string; or `header` for what the hub
    ///   does not support: any `crit`, because it knows no extension (§4.1.11); `b64` other than true (RFC 7797, not for
    ///   tokens); a token in a token (`cty`, RFC 7519 §5.2); a `typ` of another kind, such as `logout+jwt` (RFC 8725 §3.11).
    init(_ encoded: ArraySlice<UInt8>) throws(TokenRejection) {
        guard let json = Self.decoded(encoded) else { throw .malformed }
        self = try json.withUnsafeBytes { bytes in
            Result { () throws(TokenRejection) in try TokenHeader(json: bytes) }
        }.get()
    }

    private init(json: UnsafeRawBufferPointer) throws(TokenRejection) {
        var names: Set<String> = []
        var (alg, kid): (String?, String?)
        do {
            var reader = try JSONObjectReader(json)
            while let key = try reader.nextKey() {
                let value = try reader.takeValue()
                guard let name = key.string, names.insert(name).inserted else { throw TokenRejection.malformed }
                switch name {
                case "alg": alg = value.string
                case "kid":
                    guard value.kind == .string || value.kind == .null else { throw TokenRejection.malformed }
                    kid = value.string
                case "crit": throw TokenRejection.header
                case "b64": guard value.kind == .true else { throw TokenRejection.header }
                case "cty": guard !Self.isToken(value.string) else { throw TokenRejection.header }
                case "typ": guard Self.isKnown(type: value.string) else { throw TokenRejection.header }
                default: break
                }
            }
        } catch let rejection as TokenRejection {
            throw rejection
        } catch {
            throw .malformed
        }
        guard let alg else { throw .malformed }
        self.alg = alg
        self.kid = kid
    }

    /// Whether a part of a token is an object that has each of its names once (RFC 7519 §4). Else readers disagree, such as
    /// on whose token it is.
    static func hasEachNameOnce(_ encoded: ArraySlice<UInt8>) -> Bool {
        guard let json = decoded(encoded) else { return false }
        return json.withUnsafeBytes { bytes in
            var names: Set<String> = []
            do {
                var reader = try JSONObjectReader(bytes)
                while let key = try reader.nextKey() {
                    _ = try reader.takeValue()
                    guard let name = key.string, names.insert(name).inserted else { return false }
                }
                return true
            } catch {
                return false
            }
        }
    }

    /// Whether the part has only base64url characters (RFC 7515 §5.2): no padding, no blanks.
    static func isEncoded(_ part: ArraySlice<UInt8>) -> Bool {
        part.count % 4 != 1
            && part.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    private static func decoded(_ encoded: ArraySlice<UInt8>) -> Data? {
        guard isEncoded(encoded) else { return nil }
        var text = String(decoding: encoded, as: UTF8.self)
        text = text.replacing("-", with: "+").replacing("_", with: "/")
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        return Data(base64Encoded: text)
    }

    /// The media type in lower case, without the prefix that may be omitted (RFC 7515 §4.1.9).
    private static func subtype(_ type: String) -> String {
        let type = type.lowercased()
        return type.hasPrefix("application/") ? String(type.dropFirst("application/".count)) : type
    }

    private static func isToken(_ contentType: String?) -> Bool { contentType.map { subtype($0) == "jwt" } ?? false }

    /// False for other kinds of tokens. "at+jwt" is an access token (RFC 9068).
    private static func isKnown(type: String?) -> Bool {
        guard let type else { return false }
        let subtype = subtype(type)
        return subtype == "at+jwt" || !subtype.hasSuffix("+jwt")
    }
}
