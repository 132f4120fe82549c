/// Hexadecimal digits (RFC 4648 §8): written in lower case, read in both.
public enum Hex {
    /// The lower-case digit of a value below 16.
    @inlinable public static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? 0x30 &+ value : 0x57 &+ value
    }

    /// The upper-case digit of a value below 16.
    @inlinable public static func upperDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? 0x30 &+ value : 0x37 &+ value
    }

    /// The digits of `bytes` as a string.
    package static func encode(_ bytes: UnsafeRawBufferPointer) -> String {
        String(unsafeUninitializedCapacity: bytes.count * 2) { target in
            for (index, byte) in bytes.enumerated() {
                target[index * 2] = digit(byte >> 4)
                target[index * 2 + 1] = digit(byte & 0xF)
            }
            return bytes.count * 2
        }
    }

    /// The decoded bytes; nil for an odd count or any other character.
    package static func decode(_ digits: UnsafeRawBufferPointer) -> [UInt8]? {
        guard digits.count % 2 == 0 else { return nil }
        var result: [UInt8] = []
        result.reserveCapacity(digits.count / 2)
        var index = 0
        while index < digits.count {
            guard let high = digits[index].hexValue, let low = digits[index &+ 1].hexValue else { return nil }
            result.append(high << 4 | low)
            index &+= 2
        }
        return result
    }
}
