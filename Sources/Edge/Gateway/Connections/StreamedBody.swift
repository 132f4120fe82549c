import Bytes
import Clock
import HTTP
import Reactor
import Store

/// The body of an answer that is sent piece by piece: the next one is asked for when the one before has left but for
/// what other answers may leave unsent (`HTTPRules.answerBytesMax`), so that a slow reader costs no memory.
final class StreamedBody {
    private let source: Export
    /// Whether a piece has been asked for and has not come.
    private var isAsked = false

    init(_ source: Export) { self.source = source }

    /// Sends the head.
    static func begin(
        _ response: HTTPResponse, _ contentType: String, _ answering: HTTPMachine.Answering, _ connection: Connection
    ) {
        connection.owner.metrics.answered(response.status.code)
        var head = ByteWriter(capacity: 512)
        head.append(
            chunkedResponse: response.status, contentType: contentType,
            keepsAlive: answering.keepsAlive && !connection.owner.isStopping
        ) { head in for field in response.fields { head.append(field: field.name, field.value) } }
        connection.queue(head.finish())
    }

    /// Asks for the next piece where there is room for one.
    func pull(_ connection: Connection) {
        let owner = connection.owner
        guard !isAsked, connection.transport.output.byteCount <= owner.settings.http.answerBytesMax else { return }
        isAsked = true
        source.pull()
        // A hub that ends waits for nobody longer than it has said.
        guard !owner.isStopping else { return }
        owner.loop.setDeadline(connection, owner.loop.now.advanced(by: owner.settings.timeouts.answer))
    }

    /// A piece has come; says whether it was the end. Where the body is not whole, the connection ends without its last chunk:
    /// the client sees that.
    func came(_ piece: ExportPiece, _ connection: Connection) -> Bool {
        isAsked = false
        var chunk = ByteWriter(capacity: 64)
        switch piece {
        case .bytes(let bytes):
            // An empty chunk would be the end.
            guard !bytes.isEmpty else {
                pull(connection)
                return false
            }
            chunk.append(chunk: bytes)
            connection.queue(chunk.finish())
            return false
        case .end:
            chunk.append(chunk: [])
            connection.queue(chunk.finish())
            return true
        case .broken:
            connection.drop()
            return false
        }
    }
}
