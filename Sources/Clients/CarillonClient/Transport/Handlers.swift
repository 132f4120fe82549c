import NIOCore
import NIOHTTP1
import NIOWebSocket

/// Sends a request as soon as the channel, and TLS on it, is ready.
final class RequestStarter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let head: HTTPRequestHead

    init(_ head: HTTPRequestHead) {
        self.head = head
    }

    func channelActive(context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }
}

/// Fails the promise of an upgrade that does not come: the hub has answered otherwise, or has closed.
final class UpgradeWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart

    private let upgraded: EventLoopPromise<Void>

    init(_ upgraded: EventLoopPromise<Void>) {
        self.upgraded = upgraded
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data) {
            upgraded.fail(CarillonError.http(Int(head.status.code)))
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        upgraded.fail(CarillonError.network("the connection has ended"))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        upgraded.fail(error)
        context.close(promise: nil)
    }
}

/// Collects an answer.
final class ReplyCollector: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private let answered: EventLoopPromise<TransportReply>
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []

    init(_ answered: EventLoopPromise<TransportReply>) {
        self.answered = answered
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): self.head = head
        case .body(let part):
            guard body.count + part.readableBytes <= NIOTransport.bodyMax else {
                answered.fail(CarillonError.network("the answer is too long"))
                context.close(promise: nil)
                return
            }
            body += part.readableBytesView
        case .end:
            guard let head else { return }
            let fields = head.headers.map { ($0.name.lowercased(), $0.value) }
            answered.succeed(
                TransportReply(
                    status: Int(head.status.code), fields: Dictionary(fields) { first, _ in first }, body: body))
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        answered.fail(CarillonError.network("the connection has ended"))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        answered.fail(error)
        context.close(promise: nil)
    }
}

/// Turns frames into events. Fragments are whole messages before they come here.
final class SocketHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let inbox: SocketInbox

    init(_ inbox: SocketInbox) {
        self.inbox = inbox
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        var bytes = frame.unmaskedData
        switch frame.opcode {
        case .text: inbox.add(.text(String(buffer: bytes)))
        case .ping:
            let pong = WebSocketFrame(fin: true, opcode: .pong, maskKey: .random(), data: bytes)
            context.writeAndFlush(wrapOutboundOut(pong), promise: nil)
        case .connectionClose:
            let code = bytes.readInteger(as: UInt16.self).map { Int($0) } ?? 1005
            inbox.add(.closed(code: code, reason: String(buffer: bytes)))
            let answer = WebSocketFrame(
                fin: true, opcode: .connectionClose, maskKey: .random(), data: frame.unmaskedData)
            context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
            context.close(promise: nil)
        default: break
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        inbox.add(.closed(code: 1006, reason: ""))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        inbox.add(.closed(code: 1006, reason: ""))
        context.close(promise: nil)
    }
}
