import Bytes
import Digests
import Testing

@Suite(.timeLimit(.minutes(15))) struct DigestTests {
    private func withUTF8<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        Array(text.utf8).withUnsafeBytes { body($0) }
    }

    /// RFC 3174 §7.3, and RFC 6455 §1.3 in two pieces.
    @Test func sha1Vectors() {
        let abc = withUTF8("abc") { SHA1($0).withUnsafeBytes { Hex.encode($0) } }
        #expect(abc == "a9993e364706816aba3e25717850c26c9cd0d89d")
        let accept = withUTF8("dGhlIHNhbXBsZSBub25jZQ==") { key in
            withUTF8("258EAFA5-E914-47DA-95CA-C5AB0DC85B11") { SHA1(key, $0).withUnsafeBytes { Base64.encode($0) } }
        }
        #expect(accept == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }

    /// RFC 1321 appendix A.5.
    @Test(arguments: [
        ("", "d41d8cd98f00b204e9800998ecf8427e"), ("abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        (String(repeating: "1234567890", count: 8), "57edf4a22be3c955ac49da2e2107b67a"),
    ])
    func md5Vectors(_ text: String, _ digits: String) {
        let digest = withUTF8(text) { MD5($0) }
        #expect(digest.hex == digits)
        #expect(withUTF8(digits.uppercased()) { digest.matches(hex: $0) })
        for bad in ["", String(digits.dropLast()), digits + "0", "g" + digits.dropFirst(), "x" + digits.dropFirst()] {
            #expect(!withUTF8(bad) { digest.matches(hex: $0) })
        }
    }

    /// FIPS 180-4 examples.
    @Test func sha256Vectors() {
        #expect(
            withUTF8("abc") { SHA256.hash($0).hex }
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(
            withUTF8("") { SHA256.hash($0).hex } == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    }

    /// RFC 4231 §4: cases 1–4, 6 and 7.
    @Test(
        arguments: [
            (
                [UInt8](repeating: 0x0B, count: 20), Array("Hi There".utf8),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
            ),
            (
                Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
            (
                [UInt8](repeating: 0xAA, count: 20), [UInt8](repeating: 0xDD, count: 50),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
            ),
            (
                Array(1...25), [UInt8](repeating: 0xCD, count: 50),
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                Array(
                    "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm."
                        .utf8), "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
            ),
        ] as [([UInt8], [UInt8], String)]) func hmacVectors(key: [UInt8], message: [UInt8], code: String)
    {
        let hmac = key.withUnsafeBytes { HMACSHA256(key: $0) }
        #expect(message.withUnsafeBytes { hmac.authenticationCode(for: $0).hex } == code)
        let short = message.withUnsafeBytes { message in
            hmac.authenticationCode(of: message.count) { $0.copyMemory(from: message) }
        }
        #expect(short.hex == code)
        for split in 0...message.count {
            var hash = hmac.begin()
            Array(message[..<split]).withUnsafeBytes { hash.update($0) }
            Array(message[split...]).withUnsafeBytes { hash.update($0) }
            #expect(hmac.finish(hash).hex == code)
        }
    }

    /// Around block boundaries, both ways give the same code.
    @Test func shortMessagesFillTheirBlocks() {
        let hmac = HMACSHA256(key: "key")
        for count in 0...200 {
            let message = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            message.withUnsafeBytes { message in
                let short = hmac.authenticationCode(of: count) { $0.copyMemory(from: message) }
                #expect(short.hex == hmac.authenticationCode(for: message).hex, "\(count) bytes")
            }
        }
    }

    /// From `openssl sha1` of this many letters a: around block boundaries.
    @Test(arguments: [
        (0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        (55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
        (56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
        (63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"),
        (64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
        (119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"),
        (120, "f34c1488385346a55709ba056ddd08280dd4c6d6"),
    ])
    func sha1FillsItsBlocks(_ count: Int, _ digits: String) {
        let message = [UInt8](repeating: UInt8(ascii: "a"), count: count)
        message.withUnsafeBytes { message in
            for split in [0, count / 2, count] {
                let digest = SHA1(.init(rebasing: message[..<split]), .init(rebasing: message[split...]))
                #expect(digest.withUnsafeBytes { Hex.encode($0) } == digits)
            }
        }
    }

    @Test func matchesHexOfEitherCase() {
        let digest = withUTF8("abc") { SHA256.hash($0) }
        #expect(withUTF8(digest.hex) { digest.matches(hex: $0) })
        #expect(withUTF8(digest.hex.uppercased()) { digest.matches(hex: $0) })
        #expect(!withUTF8(String(digest.hex.dropLast())) { digest.matches(hex: $0) })
        #expect(!withUTF8(digest.hex + "0") { digest.matches(hex: $0) })
        for index in 0..<64 {
            var digits = Array(digest.hex.utf8)
            for wrong in [digits[index] == 0x30 ? 0x31 : 0x30, UInt8(ascii: "g"), 0xFF] as [UInt8] {
                digits[index] = wrong
                #expect(!digits.withUnsafeBytes { digest.matches(hex: $0) })
            }
        }
    }

    @Test func longKeysAreHashedFirst() {
        let key = [UInt8](repeating: 7, count: 65)
        let hashed = key.withUnsafeBytes { SHA256.hash($0).withUnsafeBytes { [UInt8]($0) } }
        let long = key.withUnsafeBytes { HMACSHA256(key: $0) }
        let short = hashed.withUnsafeBytes { HMACSHA256(key: $0) }
        #expect(
            withUTF8("m") { long.authenticationCode(for: $0).hex }
                == withUTF8("m") { short.authenticationCode(for: $0).hex })
    }
}
