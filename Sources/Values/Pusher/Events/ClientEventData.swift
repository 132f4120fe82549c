import Bytes
import JSON

/// The data of a client event: the text of a JSON value. Strings pass unchanged, other values as strings of their text.
package enum ClientEventData {
    /// Bytes of the string that receivers get.
    package static func count(_ text: UnsafeRawBufferPointer) -> Int {
        guard text.first == UInt8(ascii: "\"") else { return text.count }
        return (try? JSONValue.parse(text))?.withCharacters { $0.count } ?? text.count
    }

    /// The string that receivers get.
    package static func characters(_ text: UnsafeRawBufferPointer) -> [UInt8] {
        guard text.first == UInt8(ascii: "\"") else { return [UInt8](text) }
        return (try? JSONValue.parse(text))?.characters ?? [UInt8](text)
    }
}
