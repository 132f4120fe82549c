import Bytes
import Foundation
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct EncodingTests {
    /// RFC 4648 §10.
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ]) func base64Vectors(plain: String, encoded: String) {
        #expect(withBytes(plain) { Base64.encode($0) } == encoded)
        #expect(withBytes(encoded) { Base64.decodedCount($0) } == plain.utf8.count)
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "=m9v", "Zm=v", "====", "Zm-_", "Z===",
    ])
    func refusesOtherBase64(text: String) {
        #expect(withBytes(text) { Base64.decodedCount($0) } == nil)
    }

    @Test func base64AndHexRoundTrips() {
        var random = SeededRandom()
        for count in 0..<300 {
            let bytes = random.bytes(count)
            let text = withBytes(bytes) { Base64.encode($0) }
            #expect(Data(base64Encoded: text).map { Array($0) } == bytes, "seed \(random.seed)")
            #expect(withBytes(text) { Base64.decodedCount($0) } == count, "seed \(random.seed)")
            let hex = withBytes(bytes) { Hex.encode($0) }
            #expect(withBytes(hex) { Hex.decode($0) } == bytes, "seed \(random.seed)")
        }
    }

    @Test func hexVectors() {
        #expect(withBytes("00aBfF") { Hex.decode($0) } == [0x00, 0xAB, 0xFF])
        for bad in ["0", "0g", "G0", " 0", "0@", "0`"] { #expect(withBytes(bad) { Hex.decode($0) } == nil) }
    }

    @Test func decimals() {
        #expect(withBytes("0042") { $0.decimalValue } == 42)
        #expect(withBytes("9223372036854775807") { $0.decimalValue } == Int.max)
        for bad in ["", "-1", "+1", " 1", "1 ", "0x1", "9223372036854775808", "99999999999999999999"] {
            #expect(withBytes(bad) { $0.decimalValue } == nil)
        }
    }

    @Test func asciiClassesAgreeWithUnicode() {
        for byte in UInt8.min...UInt8.max {
            let character = Character(Unicode.Scalar(byte))
            #expect(byte.isASCIIDigit == (character.isASCII && character.isWholeNumber))
            #expect(byte.isASCIILetter == (character.isASCII && character.isLetter))
            #expect(byte.hexValue.map(Int.init) == (character.isASCII ? character.hexDigitValue : nil))
            let lower = character.isASCII ? character.lowercased() : String(character)
            #expect(String(Character(Unicode.Scalar(byte.asciiLowercased))) == lower)
        }
    }

    @Test func comparisons() {
        withBytes("Upgrade") { bytes in
            #expect(bytes.equals("Upgrade"))
            #expect(!bytes.equals("upgrade"))
            #expect(bytes.equalsIgnoringCase("upgrade"))
            #expect(!bytes.equalsIgnoringCase("upgrades"))
            #expect(withBytes("SEC-WebSocket-Key") { $0.equalsIgnoringCase("sec-websocket-key") })
            for byte in UInt8.min...UInt8.max {
                for index in 0..<5 {
                    var name = Array("a-3zK".utf8)
                    name[index] = byte
                    let isSame = byte.asciiLowercased == Array("a-3zk".utf8)[index]
                    #expect(withBytes(name) { $0.equalsIgnoringCase("a-3zk") } == isSame, "\(byte) at \(index)")
                }
            }
            #expect(withBytes("keep-aliv1") { !$0.equalsIgnoringCase("keep-alive") })
            #expect(withBytes("sec\rwebsocket-13") { !$0.equalsIgnoringCase("sec-websocket-13") })
            #expect(withBytes("sec-websocket-\u{11}3") { !$0.equalsIgnoringCase("sec-websocket-13") })
            #expect(bytes.hasPrefix("Up"))
            #expect(!bytes.hasPrefix("Upgrade!"))
            #expect(bytes.firstIndex(of: UInt8(ascii: "d"), from: 0) == 5)
            #expect(bytes.firstIndex(of: UInt8(ascii: "d"), from: 6) == nil)
            #expect(bytes.firstIndex(of: UInt8(ascii: "e"), from: 99) == nil)
        }
        #expect(withBytes(" \t a b\t ") { $0.trimmingBlanks.string } == "a b")
        #expect(withBytes(" \t ") { $0.trimmingBlanks.string } == "")
        #expect(UnsafeRawBufferPointer(start: nil, count: 0).equals(""))
    }
}
