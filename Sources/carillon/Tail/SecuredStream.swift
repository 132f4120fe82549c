import Reactor

/// The TLS session of a client's connection, and plaintext not yet taken.
final class SecuredStream {
    let session: TLSSession
    // The session uses it without retaining it.
    private let wire: TLSWire
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 128 << 10, alignment: 8)
    private var opened = 0..<0

    /// - Parameter host: name or numeric address that the certificate must have.
    init(_ client: TLSClient, host: String) throws(TLSError) {
        wire = try TLSWire()
        session = try client.session(host: host, on: wire)
    }

    deinit {
        room.deallocate()
    }

    /// Reads received bytes; they may give no plaintext yet. Call it when all plaintext is taken.
    ///
    /// - Returns: false at the end of the stream.
    func fill(_ descriptor: Int32) throws(ClientSocket.Pause) -> Bool {
        precondition(opened.isEmpty, "what was opened before is taken first")
        switch session.receive(descriptor, into: room) {
        case .bytes(let count): opened = 0..<count
        case .wouldBlock: break
        case .endOfStream: return false
        case .failed:
            if let complaint = session.certificateComplaint {
                throw .untrusted("the hub's certificate is not good: \(complaint)")
            }
            switch session.failure {
            case .plainHTTP, .notTLS:
                throw .hopeless("this port does not speak TLS: use ws:// in place of wss://")
            case let failure: throw .closed("TLS: \(failure?.rawValue ?? "the connection broke")")
            }
        }
        return true
    }

    /// Moves plaintext into `buffer`, and returns how many bytes.
    func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = min(opened.count, buffer.count)
        let start = opened.lowerBound
        UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]).copyMemory(
            from: UnsafeRawBufferPointer(rebasing: room[start..<start + count]))
        opened = start + count..<opened.upperBound
        return count
    }
}
