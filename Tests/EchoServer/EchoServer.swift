import Bytes
import Dispatch
import Foundation
import Gateway
import Glibc
import HTTP
import Identity
import Logging
import Reactor
import WebSocket

// The server that conformance suites judge: the hub's transport, loops, sockets, HTTP, WebSocket and write queues, with an
// echo instead of the engine. No product contains it.
//
//     EchoServer [PORT [LOOPS]]
//
// It listens on 127.0.0.1, prints the port it has, and ends with SIGINT or SIGTERM.

@main
enum EchoServer {
    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst().map { Int($0) }
        guard arguments.count <= 2, let port = UInt16(exactly: (arguments.first ?? 0) ?? -1),
            let loops = arguments.count > 1 ? arguments[1] : 1, (1...64).contains(loops)
        else {
            FileHandle.standardError.write(Data("usage: EchoServer [PORT [LOOPS]]\n".utf8))
            exit(2)
        }
        // Before any thread is started, which has what is blocked here blocked too.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let gateway = try Gateway(
            .echo(port: port, loops: loops), verifier: verifier(), routes: NoRoutes(), startFeed: nil, startStore: nil)
        guard case .tcp(_, let bound, _)? = gateway.endpoints.first else { preconditionFailure("it listens on TCP") }
        print(bound)
        fflush(nil)
        var number: Int32 = 0
        while sigwait(&signals, &number) != 0 {}
        gateway.stop()
    }

    /// A gateway wants one; here nobody has a token.
    private static func verifier() throws -> TokenVerifier {
        let made = Locked<Result<TokenVerifier, TokenPolicyError>?>(nil)
        let done = DispatchSemaphore(value: 0)
        Task {
            do throws(TokenPolicyError) {
                let verifier = try await TokenVerifier(policy: TokenPolicy(), logger: Logger(label: "echo"))
                made.withLock { $0 = .success(verifier) }
            } catch {
                made.withLock { $0 = .failure(error) }
            }
            done.signal()
        }
        done.wait()
        guard let result = made.withLock({ $0 }) else { preconditionFailure("signalled before it was made") }
        return try result.get()
    }
}

extension GatewayConfiguration {
    /// Bounds that leave room for the suite's largest messages, and for as many of them as it has under way.
    static func echo(port: UInt16, loops: Int) -> GatewayConfiguration {
        var configuration = GatewayConfiguration()
        configuration.listeners = [ListenerConfiguration(.tcp(host: "127.0.0.1", port: port))]
        // The suites send as fast as they can.
        configuration.limits.messagesPerSecond = 0
        configuration.limits.controlFramesPerSecond = 0
        configuration.loops = loops
        configuration.limits.messageBytesMax = 32 << 20
        // 4 MiB in fragments of 64 bytes.
        configuration.limits.messageFragmentsMax = 1 << 17
        configuration.limits.sendQueueBytesMax = 128 << 20
        configuration.limits.sendQueueFramesMax = 1 << 17
        configuration.admission.exemptsLoopback = true
        // However short: what is echoed shall have been compressed.
        configuration.compression?.threshold = 0
        configuration.responder = { payload, isText in
            FrameWriter.frame(isText ? Opcode.text : Opcode.binary, payload)
        }
        return configuration
    }
}

private struct NoRoutes: HTTPRoutes {
    func respond(
        to request: HTTPRequest, _ exchange: HTTPExchange, channels: any ChannelDirectory
    ) -> HTTPResponse? {
        .problem(.notFound, "There is nothing but an echo, at /app/echo.")
    }
}
