import Dispatch
import Foundation
import Glibc
import Postgres
import TestSupport
import Testing

/// A server that breaks PostgreSQL's protocol. libpq then closes the socket, and no return code says so.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct GarbledServerTests {
    /// It is unknown whether the statement was carried out; the server did not refuse it.
    @Test(arguments: [1, 8]) func aGarbledAnswerIsALossAndNoRefusal(depth: Int) throws {
        let server = try GarbledServer()
        let client = try Client(string: server.string, depth: depth)
        var isAnswered = false
        client.connection.query("SELECT 1", timeout: .seconds(60)) { _ in isAnswered = true }
        server.garble()
        try client.run { client.lost != nil || isAnswered }
        #expect(client.lost?.kind == .lost)
        #expect(!isAnswered)
        #expect(client.loop.sourceCount == 0)
    }

    @Test func garbledBytesBetweenStatementsAreALoss() throws {
        let server = try GarbledServer()
        let client = try Client(string: server.string)
        server.garble()
        try client.run { client.lost != nil }
        #expect(client.lost?.kind == .lost)
        #expect(client.loop.sourceCount == 0)
    }
}

/// Lets one client in, and sends a message with an impossible length when told to.
private final class GarbledServer {
    let string: String
    private let moment = DispatchSemaphore(value: 0)

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                #expect(bind(listener, pointer, length) == 0)
                #expect(listen(listener, 1) == 0)
                #expect(getsockname(listener, pointer, &length) == 0)
            }
        }
        let port = UInt16(bigEndian: address.sin_port)
        string = "host=127.0.0.1 port=\(port) dbname=x user=y sslmode=disable gssencmode=disable"
        let moment = moment
        // The thread owns the listener and the accepted socket.
        Thread.detachNewThread {
            let peer = accept(listener, nil, nil)
            close(listener)
            Self.serve(peer, moment)
            close(peer)
        }
    }

    deinit {
        garble()
    }

    func garble() {
        moment.signal()
    }

    private static func serve(_ peer: Int32, _ moment: DispatchSemaphore) {
        var buffer = [UInt8](repeating: 0, count: 4096)
        guard recv(peer, &buffer, buffer.count, 0) > 0 else { return }
        // AuthenticationOk and ReadyForQuery (PostgreSQL 15, 55.7).
        let welcome: [UInt8] = [0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5A, 0, 0, 0, 5, 0x49]
        guard send(peer, welcome, welcome.count, Int32(MSG_NOSIGNAL)) == welcome.count else { return }
        moment.wait()
        // A length counts itself, so 4 is the least.
        let garbled: [UInt8] = [0x44, 0, 0, 0, 1]
        _ = send(peer, garbled, garbled.count, Int32(MSG_NOSIGNAL))
        // Until the client hangs up: it must find the loss in the bytes, not in the end of the stream.
        while recv(peer, &buffer, buffer.count, 0) > 0 {}
    }
}
