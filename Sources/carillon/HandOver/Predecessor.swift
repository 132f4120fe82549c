import Clock
import Glibc
import Logging
import Reactor

/// Asks the running hub for its sockets.
enum Predecessor {
    /// How long a hub may be busy with another successor, or with its end.
    static let patience = Duration.seconds(60)
    /// How long it may take to answer.
    static let answerTime = Duration.seconds(5)
    private static let pause = Duration.milliseconds(100)

    /// Its sockets and the connection to it; nil when no hub is running there, or when `stop` is set.
    ///
    /// - Throws: a `Failure` of one clear line, when a hub is there and hands nothing over. It serves on.
    static func ask(
        at path: String, _ stop: Latch, _ logger: Logger, patience: Duration = patience
    ) throws(Failure) -> GivenSockets.Predecessor? {
        let end = Instant.read().advanced(by: patience)
        while !stop.isSet {
            guard let connection = LocalSocket.connect(path) else {
                let code = errno
                if code == ENOENT || code == ECONNREFUSED { return nil }
                // Its queue is full.
                guard code == EAGAIN, Instant.read() < end else {
                    throw Failure("control.socket \(path): cannot be reached: \(String(cString: strerror(code)))")
                }
                stop.wait(timeout: pause)
                continue
            }
            switch try ask(connection, path, stop) {
            case .given(let predecessor): return predecessor
            case .gone: Socket.close(connection)
            case .later(let reason):
                Socket.close(connection)
                guard Instant.read() < end else { throw Failure("the running hub does not hand over: \(reason)") }
                logger.debug("asking the running hub again", metadata: ["reason": "\(reason)"])
            }
            stop.wait(timeout: pause)
        }
        return nil
    }

    private enum Outcome {
        case given(GivenSockets.Predecessor)
        case later(String)
        /// It has ended.
        case gone
    }

    private static func ask(_ connection: Int32, _ path: String, _ stop: Latch) throws(Failure) -> Outcome {
        do throws(Failure) {
            // Anybody may have made a socket there.
            guard let peer = LocalSocket.peer(connection), peer.isTrusted else {
                throw Failure("control.socket \(path): another user's program listens there", status: .configuration)
            }
            // The kernel names the peer that listened last: that may be a successor which has failed.
            LocalSocket.tellsSenders(connection)
            guard LocalSocket.send(ControlRequest.takeOver(version: ControlRequest.version).line, to: connection) else {
                return .gone
            }
            switch try answer(connection, stop) {
            case nil: return .gone
            case (.sockets(let names), let descriptors, let sender)?:
                guard names.count == descriptors.count else {
                    for descriptor in descriptors { Socket.close(descriptor) }
                    throw Failure("the running hub sent \(descriptors.count) sockets for \(names.count) names")
                }
                return .given(
                    GivenSockets.Predecessor(
                        connection: connection, process: sender ?? peer.process,
                        sockets: zip(names, descriptors).map { InheritedSocket($1, name: $0) }))
            case (.later(let reason), _, _)?: return .later(reason)
            case (.refused(let reason), _, _)?: throw Failure("the running hub does not hand over: \(reason)")
            case (_, let descriptors, _)?:
                for descriptor in descriptors { Socket.close(descriptor) }
                throw Failure("the running hub answered with something else than its sockets")
            }
        } catch {
            Socket.close(connection)
            throw error
        }
    }

    /// Nil when the hub has ended, or `stop` is set.
    private static func answer(
        _ connection: Int32, _ stop: Latch
    ) throws(Failure) -> (ControlAnswer, descriptors: [Int32], sender: pid_t?)? {
        var lines = LineBuffer(bytesMax: ControlAnswer.bytesMax)
        var descriptors: [Int32] = []
        var sender: pid_t?
        let end = Instant.read().advanced(by: answerTime)
        while !stop.isSet {
            let left = end.duration(since: .read()).wholeMilliseconds
            var entries = [
                pollfd(fd: connection, events: Int16(POLLIN), revents: 0),
                pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            guard left > 0 else { throw Failure("the running hub does not answer") }
            _ = poll(&entries, 2, Int32(clamping: left))
            switch LocalSocket.receive(connection, atMost: ControlAnswer.bytesMax) {
            case .nothing: continue
            case .end:
                for descriptor in descriptors { Socket.close(descriptor) }
                return nil
            case .bytes(let bytes, let more, let process):
                descriptors += more
                sender = process
                guard lines.append(bytes) else { throw Failure("the running hub answers with bytes that are no line") }
            }
            guard let line = lines.next() else { continue }
            guard let answer = ControlAnswer(line) else { throw Failure("the running hub answers \"\(line)\"") }
            return (answer, descriptors, sender)
        }
        return nil
    }
}
