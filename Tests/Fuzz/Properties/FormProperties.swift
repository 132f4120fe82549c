import Bytes
import HTTP

/// Forms and percent-encoding: pairs lie in the text in order, and what is encoded is decoded as it was.
enum FormProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        try withView(bytes) { text throws(Violation) in
            var reader = FormReader(text)
            var total = 0
            while let pair = reader.next() {
                total += pair.name.count + pair.value.count + 1
                let name = [UInt8](pair.name)
                try hold(!name.contains(UInt8(ascii: "=")), "an equals sign in a name")
                try hold(!(name + pair.value).contains(UInt8(ascii: "&")), "an ampersand in a pair")
                for part in [pair.name, pair.value] {
                    guard let decoded = Percent.decode(part, plusIsSpace: true) else { continue }
                    try hold(decoded.count <= part.count, "longer decoded than encoded")
                    try hold(
                        (Percent.decodeString(part, plusIsSpace: true) != nil) == (decoded.strictText != nil),
                        "text that is UTF-8 to one reader only")
                }
            }
            try hold(total <= text.count + 1, "\(total) bytes of pairs in \(text.count)")
        }
        try checkEncoded(bytes)
    }

    private static func checkEncoded(_ bytes: [UInt8]) throws(Violation) {
        var draw = Draw(bytes)
        let value = written { writer in
            for byte in bytes {
                let isPlain = byte.isASCIILetter || byte.isASCIIDigit
                if byte == 0x20, Bool.random(using: &draw) {
                    writer.append("+")
                } else if isPlain, Bool.random(using: &draw) {
                    writer.append(byte)
                } else {
                    writer.append("%")
                    let digits = [byte >> 4, byte & 0xF].map { Bool.random(using: &draw) ? Hex.digit($0) : upper($0) }
                    writer.append(digits)
                }
            }
        }
        try withView([UInt8]("a=1&x&name=".utf8) + value + [UInt8]("&name=2".utf8)) { text throws(Violation) in
            let raw = try need(FormReader.rawValue("name", in: text), "a name that is there is not found")
            try hold(Percent.decode(raw, plusIsSpace: true) == bytes, "decoded as other bytes than were encoded")
            let string = FormReader.value("name", in: text).map { [UInt8]($0.utf8) }
            try hold(string == (bytes.strictText == nil ? nil : bytes), "decoded as another text than was encoded")
        }
    }

    private static func upper(_ digit: UInt8) -> UInt8 { Hex.upperDigit(digit) }
}
