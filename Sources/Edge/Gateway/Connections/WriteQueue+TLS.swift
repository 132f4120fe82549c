import Bytes
import Reactor

extension WriteQueue {
    /// Sends as much as the socket takes, sealed. What one tick has queued leaves in as few records as possible, several
    /// records by one call. Sealed bytes count as sent; the session keeps them until the socket takes them.
    mutating func flush(through tls: TLSSession, to descriptor: Int32) -> Outcome {
        if tls.hasUnsent {
            switch tls.send(descriptor) {
            case .all: break
            case .blocked: return .blocked
            case .broken: return .broken
            }
        }
        while !isEmpty {
            let bytes = front(gatheredIn: tls.record)
            guard bytes.isEmpty || tls.seal(bytes) else { return .broken }
            advance(by: bytes.count)
            guard isEmpty || tls.isWireFull else { continue }
            switch tls.send(descriptor) {
            case .all: break
            case .blocked: return .blocked
            case .broken: return .broken
            }
        }
        return .drained
    }
}
