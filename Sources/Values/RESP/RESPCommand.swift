import Bytes

extension ByteWriter {
    /// Writes a command, as an array of bulk strings: its name, and its arguments.
    package mutating func append(command parts: some Collection<[UInt8]>) {
        append("*")
        append(decimal: parts.count)
        append("\r\n")
        for part in parts { append(bulk: part) }
    }

    /// Writes a bulk string.
    package mutating func append(bulk bytes: [UInt8]) {
        append("$")
        append(decimal: bytes.count)
        append("\r\n")
        append(bytes)
        append("\r\n")
    }
}
