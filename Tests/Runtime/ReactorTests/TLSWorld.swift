import Glibc
import TestSupport

@testable import Reactor

/// A TLS server and client, each with its own socket, and a network between them that moves bytes only when a test says so.
final class TLSWorld {
    let server: TLSSession
    let client: TLSSession
    /// The end used by the server, and the network's other end of it.
    let serverSocket: Int32
    let serverWire: Int32
    let clientSocket: Int32
    let clientWire: Int32
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 128 << 10, alignment: 8)
    private(set) var serverRead: [UInt8] = []
    private(set) var clientRead: [UInt8] = []
    /// The result of each side's latest receive.
    private(set) var serverResult = TransferResult.wouldBlock
    private(set) var clientResult = TransferResult.wouldBlock

    init(_ server: TLSServer, _ client: TLSClient, host: String? = "localhost", on wires: (TLSWire, TLSWire)) throws {
        (serverSocket, serverWire) = Self.pair()
        (clientSocket, clientWire) = Self.pair()
        self.server = try server.session(on: wires.0)
        self.client = try client.session(host: host, on: wires.1)
    }

    deinit {
        for descriptor in [serverSocket, serverWire, clientSocket, clientWire] { close(descriptor) }
        room.deallocate()
    }

    /// Runs until neither side has anything to send.
    func settle() {
        _ = client.isEstablished || client.start(clientSocket) == .all
        var moved = true
        while moved {
            let up = carry(from: clientWire)
            if !up.isEmpty { toServer(up[...]) }
            let down = carry(from: serverWire)
            if !down.isEmpty { toClient(down[...]) }
            moved = !up.isEmpty || !down.isEmpty
        }
    }

    /// The client's bytes that the network still holds.
    func sentByClient() -> [UInt8] { carry(from: clientWire) }
    func sentByServer() -> [UInt8] { carry(from: serverWire) }

    /// Delivers these bytes, and lets the server read.
    func toServer(_ bytes: ArraySlice<UInt8>) {
        push(bytes, to: serverWire)
        serverResult = read(server, serverSocket, into: &serverRead)
    }

    func toClient(_ bytes: ArraySlice<UInt8>) {
        push(bytes, to: clientWire)
        clientResult = read(client, clientSocket, into: &clientRead)
    }

    private func read(_ session: TLSSession, _ socket: Int32, into bytes: inout [UInt8]) -> TransferResult {
        while true {
            let result = session.receive(socket, into: room)
            guard case .bytes(let count) = result else {
                // More may be there that gave no plaintext.
                var byte: UInt8 = 0
                if result == .wouldBlock, recv(socket, &byte, 1, Int32(MSG_PEEK)) > 0 { continue }
                return result
            }
            bytes += room[..<count]
        }
    }

    private func push(_ bytes: ArraySlice<UInt8>, to wire: Int32) {
        let count = bytes.withUnsafeBytes { Glibc.send(wire, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        precondition(count == bytes.count, "the network takes all that tests send at a time")
    }

    private func carry(from wire: Int32) -> [UInt8] {
        var all: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(wire, &chunk, chunk.count, 0)
            guard count > 0 else { return all }
            all += chunk[..<count]
        }
    }

    private static func pair() -> (Int32, Int32) {
        var ends: [Int32] = [-1, -1]
        let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | flags, 0, &ends) == 0)
        var size: Int32 = 1 << 20
        for end in ends { setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, 4) }
        return (ends[0], ends[1])
    }
}
