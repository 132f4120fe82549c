import Crypto
import Foundation

/// Which public keys a hub's certificate may have.
struct KeyPins: Sendable {
    private let pins: [Data]

    /// - Parameter pins: SHA-256 of keys (SubjectPublicKeyInfo), 32 bytes each. Empty: every key.
    init(_ pins: [Data]) throws {
        guard pins.allSatisfy({ $0.count == SHA256.byteCount }) else {
            throw CarillonError.invalid("a pin has 32 bytes")
        }
        self.pins = pins
    }

    var isEmpty: Bool { pins.isEmpty }

    /// Whether a key is one of them.
    func fit(key: some DataProtocol) -> Bool { pins.isEmpty || pins.contains(Data(SHA256.hash(data: key))) }

    /// Whether the key of a certificate in DER is one of them.
    func fit(certificate: [UInt8]) -> Bool {
        guard let key = Self.key(of: certificate) else { return false }
        return fit(key: key)
    }

    /// The SubjectPublicKeyInfo of a certificate in DER; nil where it is none.
    static func key(of certificate: [UInt8]) -> ArraySlice<UInt8>? {
        guard let whole = Element(certificate[...], at: 0), whole.tag == 0x30, whole.end == certificate.count,
            let body = Element(certificate[...], at: whole.start), body.tag == 0x30
        else { return nil }
        let inside = certificate[..<body.end]
        // The version is there or not; then come the serial number, algorithm, issuer, validity and subject.
        var cursor = body.start
        var left = 5
        if let version = Element(inside, at: cursor), version.tag == 0xA0 { cursor = version.end }
        while left > 0 {
            guard let element = Element(inside, at: cursor) else { return nil }
            cursor = element.end
            left -= 1
        }
        guard let key = Element(inside, at: cursor), key.tag == 0x30 else { return nil }
        return inside[cursor..<key.end]
    }

    /// An element of DER: where its content starts and ends.
    private struct Element {
        let tag: UInt8
        let start: Int
        let end: Int

        init?(_ bytes: ArraySlice<UInt8>, at index: Int) {
            guard index + 2 <= bytes.endIndex else { return nil }
            tag = bytes[index]
            var length = Int(bytes[index + 1])
            var start = index + 2
            if length >= 0x80 {
                let count = length - 0x80
                guard (1...3).contains(count), start + count <= bytes.endIndex else { return nil }
                length = bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
                start += count
            }
            guard start + length <= bytes.endIndex else { return nil }
            self.start = start
            end = start + length
        }
    }
}
