#if canImport(Security)
import Foundation
import Security

/// The network of Apple's systems: it follows their proxies, VPNs and battery saving. A thin file; what a certificate's key
/// is, `KeyPins` decides.
public struct URLSessionTransport: ClientTransport {
    private let session: URLSession
    private let delegate: SessionDelegate

    private static let connectSeconds: UInt64 = 15
    private static let answerSeconds: TimeInterval = 30
    private static let messageMax = 1 << 20

    /// A transport with a session of its own.
    ///
    /// - Parameter pins: SHA-256 of the public keys (SubjectPublicKeyInfo) of which the hub's certificate must have one: 32
    ///   bytes each. Give the key of the next certificate too. Empty: every key that a trusted authority has signed.
    public init(pins: [Data] = []) throws {
        delegate = SessionDelegate(try KeyPins(pins))
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.urlCache = nil
        // A quiet WebSocket is no lost one: the client asks the hub itself.
        configuration.timeoutIntervalForRequest = 86_400
        session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
    }

    /// Opens a WebSocket.
    public func connect(to url: URL) async throws -> any TransportSocket {
        let task = session.webSocketTask(with: url)
        task.maximumMessageSize = Self.messageMax
        let patience = Task {
            try await Task.sleep(nanoseconds: Self.connectSeconds * 1_000_000_000)
            task.cancel(with: .goingAway, reason: nil)
        }
        defer { patience.cancel() }
        let inbox = try await delegate.open(task)
        Task {
            do {
                while true {
                    if case .string(let text) = try await task.receive() { inbox.add(.text(text)) }
                }
            } catch {
                // Why it has ended, the delegate is told; here at the latest.
                inbox.add(.closed(code: task.closeCode.rawValue == 0 ? 1006 : task.closeCode.rawValue, reason: ""))
            }
        }
        return URLSessionSocket(task: task, inbox: inbox)
    }

    /// Fetches a resource.
    public func get(_ url: URL, fields: [String: String]) async throws -> TransportReply {
        var request = URLRequest(url: url, timeoutInterval: Self.answerSeconds)
        for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
        do {
            let (body, response) = try await session.data(for: request)
            guard let response = response as? HTTPURLResponse else {
                throw CarillonError.network("the answer is not HTTP")
            }
            var told: [String: String] = [:]
            for (name, value) in response.allHeaderFields { told["\(name)".lowercased()] = "\(value)" }
            return TransportReply(status: response.statusCode, fields: told, body: [UInt8](body))
        } catch {
            throw delegate.told(error, url)
        }
    }
}

/// A WebSocket of the system.
private struct URLSessionSocket: TransportSocket {
    let task: URLSessionWebSocketTask
    let inbox: SocketInbox

    func send(_ text: String) {
        // If it fails, receiving fails too. The system keeps the order of calls.
        task.send(.string(text)) { _ in }
    }

    func close() { task.cancel(with: .normalClosure, reason: nil) }
}

/// What the system tells of a session, on a queue of its own.
private final class SessionDelegate: NSObject, URLSessionWebSocketDelegate, Sendable {
    private let pins: KeyPins
    private let state = Guarded(State())

    private struct State {
        var opening: [Int: CheckedContinuation<SocketInbox, any Error>] = [:]
        var inboxes: [Int: SocketInbox] = [:]
        /// Hosts whose last certificate had another key.
        var strangers: Set<String> = []
    }

    init(_ pins: KeyPins) {
        self.pins = pins
    }

    func open(_ task: URLSessionWebSocketTask) async throws -> SocketInbox {
        try await withCheckedThrowingContinuation { continuation in
            state.with { $0.opening[task.taskIdentifier] = continuation }
            task.resume()
        }
    }

    func told(_ error: any Error, _ url: URL?) -> CarillonError {
        if let error = error as? CarillonError { return error }
        let isStranger = state.with { $0.strangers.contains(url?.host ?? "") }
        return isStranger ? .wrongKey : .network("\((error as NSError).domain) \((error as NSError).code)")
    }

    func urlSession(
        _ session: URLSession, webSocketTask: URLSessionWebSocketTask, didOpenWithProtocol protocol: String?
    ) {
        let inbox = SocketInbox()
        let opening = state.with { state in
            state.inboxes[webSocketTask.taskIdentifier] = inbox
            return state.opening.removeValue(forKey: webSocketTask.taskIdentifier)
        }
        opening?.resume(returning: inbox)
    }

    func urlSession(
        _ session: URLSession, webSocketTask: URLSessionWebSocketTask,
        didCloseWith closeCode: URLSessionWebSocketTask.CloseCode, reason: Data?
    ) {
        let inbox = state.with { $0.inboxes.removeValue(forKey: webSocketTask.taskIdentifier) }
        inbox?.add(.closed(code: closeCode.rawValue, reason: String(decoding: reason ?? Data(), as: UTF8.self)))
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let (opening, inbox) = state.with { state in
            (
                state.opening.removeValue(forKey: task.taskIdentifier),
                state.inboxes.removeValue(forKey: task.taskIdentifier)
            )
        }
        inbox?.add(.closed(code: 1006, reason: ""))
        guard let opening else { return }
        let status = (task.response as? HTTPURLResponse)?.statusCode
        let refused = status.flatMap { $0 == 101 ? nil : CarillonError.http($0) }
        opening.resume(
            throwing: refused
                ?? told(error ?? CarillonError.network("the connection has ended"), task.currentRequest?.url)
        )
    }

    /// The chain is verified first, as without pins; then the key of the hub's certificate is compared.
    func urlSession(
        _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        guard !pins.isEmpty, let trust = challenge.protectionSpace.serverTrust else {
            completionHandler(.performDefaultHandling, nil)
            return
        }
        let host = challenge.protectionSpace.host
        let chain =
            SecTrustEvaluateWithError(trust, nil) ? SecTrustCopyCertificateChain(trust) as? [SecCertificate] : nil
        guard let first = chain?.first else {
            completionHandler(.cancelAuthenticationChallenge, nil)
            return
        }
        let fits = pins.fit(certificate: [UInt8](SecCertificateCopyData(first) as Data))
        state.with { state in
            if fits { state.strangers.remove(host) } else { state.strangers.insert(host) }
        }
        completionHandler(
            fits ? .useCredential : .cancelAuthenticationChallenge, fits ? URLCredential(trust: trust) : nil)
    }
}
#endif
