import Bytes
import RESP

@testable import Shared

extension SharedCommand {
    /// The command's words, as a server reads them.
    func evaluated(_ hash: [UInt8], _ prefix: [UInt8]) -> [[UInt8]] {
        var writer = ByteWriter()
        write(hash, prefix, to: &writer)
        var parser = RESPParser(bytesMax: .max)
        var values: [RESPValue] = []
        do {
            try writer.withUnsafeBytes { try parser.read($0, &values) }
        } catch {
            return []
        }
        guard values.count == 1, case .array(let words) = values[0] else { return [] }
        return words.map { if case .bytes(let bytes) = $0 { bytes } else { [] } }
    }

    /// What the script takes: `ARGV`.
    var arguments: [[UInt8]] { Array(evaluated([], []).dropFirst(4)) }
}
