import Bytes
import Clock
import HTTP
import Reactor
import Store

/// The body of an answer that is sent piece by piece. The next piece is asked for when no more is unsent than other answers
/// may leave (`HTTPRules.answerBytesMax`), so a slow reader costs no memory.
final class StreamedBody {
    private let source: Export
    private var isAsked = false

    init(_ source: Export) { self.source = source }

    static func begin(
        _ response: HTTPResponse, _ contentType: String, _ answering: HTTPMachine.Answering,
        _ connection: ClientConnection
    ) {
        connection.owner.metrics.answered(response.status.code)
        var head = ByteWriter(capacity: 512)
        head.append(
            chunkedResponse: response.status, contentType: contentType,
            keepsAlive: answering.keepsAlive && !connection.owner.isLeaving
        ) { head in for field in response.fields { head.append(field: field.name, field.value) } }
        connection.queue(head.finish())
    }

    /// Asks for the next piece where there is room for one.
    func pull(_ connection: ClientConnection) {
        let owner = connection.owner
        guard !isAsked, connection.transport.output.byteCount <= owner.settings.http.answerBytesMax else { return }
        isAsked = true
        source.pull()
        // A hub that ends keeps its deadline.
        guard !owner.isStopping else { return }
        owner.loop.setDeadline(connection, owner.loop.now.advanced(by: owner.settings.timeouts.answer))
    }

    /// A piece has come. Returns whether it was the end. A broken body ends without its last chunk: the client notices.
    func came(_ piece: ExportPiece, _ connection: ClientConnection) -> Bool {
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
