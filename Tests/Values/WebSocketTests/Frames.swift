import Bytes
import TestSupport
import WebSocket

/// What tests check of a message, copied from its buffer.
enum Seen: Equatable {
    case text(String), binary([UInt8]), ping(String), pong(String), close(UInt16?), failed(WebSocketError)

    init(_ event: MessageEvent, in buffer: UnsafeMutableRawBufferPointer) {
        switch event {
        case .text(let payload): self = .text(payload.withUnsafeBytes(in: buffer) { $0.string })
        case .binary(let payload): self = .binary(payload.withUnsafeBytes(in: buffer) { [UInt8]($0) })
        case .ping(let payload): self = .ping(payload.withUnsafeBytes(in: buffer) { $0.string })
        case .pong(let payload): self = .pong(payload.withUnsafeBytes(in: buffer) { $0.string })
        case .close(let code): self = .close(code?.rawValue)
        }
    }
}

/// Frames made by hand, so that the reader is not tested with the writer's mistakes.
func frame(
    _ opcode: UInt8, _ payload: [UInt8], fin: Bool = true, mask: [UInt8]? = [0x37, 0xFA, 0x21, 0x3D], rsv: UInt8 = 0,
    lengthBytes: Int? = nil, length: UInt64? = nil
) -> [UInt8] {
    let length = length ?? UInt64(payload.count)
    var bytes: [UInt8] = [(fin ? 0x80 : 0) | rsv << 4 | opcode]
    let masked: UInt8 = mask == nil ? 0 : 0x80
    switch lengthBytes ?? (length < 126 ? 1 : length < 65_536 ? 2 : 8) {
    case 1: bytes.append(masked | UInt8(length))
    case 2: bytes += [masked | 126, UInt8(truncatingIfNeeded: length >> 8), UInt8(truncatingIfNeeded: length)]
    default: bytes += [masked | 127] + (0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * UInt64($0))) }
    }
    guard let mask else { return bytes + payload }
    return bytes + mask + payload.enumerated().map { $1 ^ mask[$0 % 4] }
}

func frame(_ opcode: UInt8, _ text: String, fin: Bool = true) -> [UInt8] { frame(opcode, Array(text.utf8), fin: fin) }

/// Gives `bytes` to a reader in pieces that end at `splits`; the last result is the error, if any.
func read(
    _ bytes: [UInt8], splits: [Int] = [], role: MessageReader.Role = .server, limits: MessageLimits = MessageLimits(),
    inflater: Inflater? = nil, leftover: (Int, Int) -> Void = { _, _ in }
) -> [Seen] {
    var reader = MessageReader(role: role)
    var seen: [Seen] = []
    var pending: [UInt8] = []
    var previous = 0
    for end in splits + [bytes.count] {
        pending += bytes[previous..<end]
        previous = end
        let isFailed = withMutableBytes(pending) { buffer in
            var consumed = 0
            defer { pending.removeFirst(consumed) }
            do throws(WebSocketError) {
                while let event = try reader.read(
                    buffer, consumed: &consumed, limits: limits, inflater: inflater)
                {
                    seen.append(Seen(event, in: buffer))
                }
                return false
            } catch {
                seen.append(.failed(error))
                return true
            }
        }
        if isFailed { return seen }
        leftover(pending.count, reader.heldBytes)
    }
    return seen
}
