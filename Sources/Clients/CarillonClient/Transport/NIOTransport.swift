import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket

/// The network by swift-nio, with TLS by nio-ssl: on Linux, and wherever an app chooses it.
public struct NIOTransport: ClientTransport {
    /// Which certificates are good.
    public struct Trust: Sendable {
        /// SHA-256 of the public keys (SubjectPublicKeyInfo) of which the hub's certificate must have one: 32 bytes each.
        /// Give the key of the next certificate too. Empty: every key that a trusted authority has signed.
        public var pins: [Data] = []
        /// A file with the authorities, in PEM; nil: those of the system.
        public var authorities: String?

        /// Authorities of the system, and every key.
        public init(pins: [Data] = [], authorities: String? = nil) {
            self.pins = pins
            self.authorities = authorities
        }
    }

    private let pins: KeyPins
    private let group: MultiThreadedEventLoopGroup
    private let authorities: String?
    /// Made for the first connection by TLS: it reads the authorities, some hundred of a system.
    private let made = Guarded<NIOSSLContext?>(nil)

    private static let connectSeconds: Int64 = 15
    private static let answerSeconds: Int64 = 30
    /// Bytes of a message, and of an answer by HTTP.
    static let messageMax = 1 << 20
    static let bodyMax = 32 << 20

    /// A transport on the process's own threads of swift-nio.
    public init(_ trust: Trust = Trust()) throws {
        pins = try KeyPins(trust.pins)
        group = .singleton
        authorities = trust.authorities
        // A file that the app names is read now, so that the app is told of a wrong name.
        if authorities != nil { _ = try context() }
    }

    private func context() throws -> NIOSSLContext {
        try made.with { made in
            if let made { return made }
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.minimumTLSVersion = .tlsv12
            if let authorities { configuration.trustRoots = .file(authorities) }
            guard let context = try? NIOSSLContext(configuration: configuration) else {
                throw CarillonError.invalid("the authorities cannot be read")
            }
            made = context
            return context
        }
    }

    // MARK: WebSockets

    /// Opens a WebSocket.
    public func connect(to url: URL) async throws -> any TransportSocket {
        let endpoint = try Endpoint(url)
        let inbox = SocketInbox()
        let upgraded = group.next().makePromise(of: Void.self)
        let upgrader = NIOWebSocketClientUpgrader(maxFrameSize: Self.messageMax) { channel, _ in
            channel.eventLoop.makeCompletedFuture {
                let pipeline = channel.pipeline.syncOperations
                try pipeline.addHandler(
                    NIOWebSocketFrameAggregator(
                        minNonFinalFragmentSize: 0, maxAccumulatedFrameCount: 4096,
                        maxAccumulatedFrameSize: Self.messageMax))
                try pipeline.addHandler(SocketHandler(inbox))
                upgraded.succeed()
            }
        }
        do {
            let channel = try await bootstrap(endpoint) { channel in
                let head = HTTPRequestHead(
                    version: .http1_1, method: .GET, uri: endpoint.path, headers: ["Host": endpoint.authority])
                let (starter, watch) = (RequestStarter(head), UpgradeWatch(upgraded))
                let readers = NIOLoopBound((starter, watch), eventLoop: channel.eventLoop)
                let pipeline = channel.pipeline.syncOperations
                try pipeline.addHTTPClientHandlers(
                    // The first frame may come with the answer.
                    leftOverBytesStrategy: .forwardBytes,
                    withClientUpgrade: (
                        [upgrader],
                        { context in
                            // Both read HTTP: they go before frames come.
                            _ = context.pipeline.syncOperations.removeHandler(readers.value.0)
                            _ = context.pipeline.syncOperations.removeHandler(readers.value.1)
                        }
                    ))
                try pipeline.addHandler(starter)
                try pipeline.addHandler(watch)
            }
            let patience = channel.eventLoop.scheduleTask(in: .seconds(Self.connectSeconds)) {
                upgraded.fail(CarillonError.network("the hub does not answer"))
                channel.close(promise: nil)
            }
            try await upgraded.futureResult.get()
            patience.cancel()
            return NIOSocket(channel: channel, inbox: inbox)
        } catch {
            upgraded.fail(error)
            throw Self.told(error)
        }
    }

    // MARK: HTTP

    /// Fetches a resource.
    public func get(_ url: URL, fields: [String: String]) async throws -> TransportReply {
        let endpoint = try Endpoint(url)
        let answered = group.next().makePromise(of: TransportReply.self)
        do {
            let channel = try await bootstrap(endpoint) { channel in
                var head = HTTPRequestHead(
                    version: .http1_1, method: .GET, uri: endpoint.path,
                    headers: ["Host": endpoint.authority, "Connection": "close"])
                for (name, value) in fields { head.headers.add(name: name, value: value) }
                try channel.pipeline.syncOperations.addHTTPClientHandlers()
                try channel.pipeline.syncOperations.addHandler(RequestStarter(head))
                try channel.pipeline.syncOperations.addHandler(ReplyCollector(answered))
            }
            let patience = channel.eventLoop.scheduleTask(in: .seconds(Self.answerSeconds)) {
                answered.fail(CarillonError.network("the hub does not answer"))
                channel.close(promise: nil)
            }
            defer { patience.cancel() }
            let reply = try await answered.futureResult.get()
            channel.close(promise: nil)
            return reply
        } catch {
            answered.fail(error)
            throw Self.told(error)
        }
    }

    // MARK: Both

    private func bootstrap(
        _ endpoint: Endpoint, _ fill: @escaping @Sendable (any Channel) throws -> Void
    ) async throws -> any Channel {
        try await ClientBootstrap(group: group)
            .connectTimeout(.seconds(Self.connectSeconds))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if endpoint.isSecure { try channel.pipeline.syncOperations.addHandler(security(endpoint.host)) }
                    try fill(channel)
                }
            }
            .connect(host: endpoint.host, port: endpoint.port).get()
    }

    /// TLS: the chain is verified first, as without pins; then the key of the certificate is compared.
    private func security(_ host: String) throws -> NIOSSLClientHandler {
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        let (pins, context) = (pins, try context())
        guard !pins.isEmpty else {
            return try NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : host)
        }
        return try NIOSSLClientHandler._makeSSLClientHandler(
            context: context, serverHostname: isAddress ? nil : host
        ) { certificate, channel in
            channel.eventLoop.makeCompletedFuture {
                let key = try certificate.extractPublicKey().toSPKIBytes()
                guard pins.fit(key: key) else { throw CarillonError.wrongKey }
            }
        }
    }

    private static func told(_ error: any Error) -> CarillonError {
        if let error = error as? CarillonError { return error }
        // What is not for people: NIO wraps what the pin's check has thrown.
        return "\(error)".contains("wrongKey") ? .wrongKey : .network("\(error)")
    }

    /// Where a URL leads.
    private struct Endpoint {
        let host: String
        let port: Int
        let isSecure: Bool
        let path: String
        let authority: String

        init(_ url: URL) throws {
            guard let parts = URLComponents(url: url, resolvingAgainstBaseURL: false), let host = parts.host,
                let scheme = parts.scheme, ["http", "https", "ws", "wss"].contains(scheme)
            else { throw CarillonError.invalid("an address is http, https, ws or wss, and has a host") }
            isSecure = scheme == "https" || scheme == "wss"
            self.host = host.trimmingCharacters(in: ["[", "]"])
            port = parts.port ?? (isSecure ? 443 : 80)
            let path = parts.percentEncodedPath.isEmpty ? "/" : parts.percentEncodedPath
            self.path = path + (parts.percentEncodedQuery.map { "?\($0)" } ?? "")
            authority = parts.port.map { "\(host):\($0)" } ?? host
        }
    }
}

/// A WebSocket of swift-nio.
private struct NIOSocket: TransportSocket {
    let channel: any Channel
    let inbox: SocketInbox

    func send(_ text: String) {
        let frame = WebSocketFrame(
            fin: true, opcode: .text, maskKey: .random(), data: channel.allocator.buffer(string: text))
        channel.writeAndFlush(frame, promise: nil)
    }

    func close() {
        var data = channel.allocator.buffer(capacity: 2)
        data.write(webSocketErrorCode: .normalClosure)
        let frame = WebSocketFrame(fin: true, opcode: .connectionClose, maskKey: .random(), data: data)
        channel.writeAndFlush(frame).whenComplete { _ in channel.close(promise: nil) }
    }
}
