import Bytes
import Foundation
import Glibc
import Pusher
import Reactor

/// A backend that publishes on one thread for each few rooms: what goes to one room goes in its order, each once the one
/// before is answered.
final class RoomBackend: Sendable {
    private struct Order: Sendable {
        let room: Int
        let number: String
        let channel: String
        let address: LoadAddress
    }

    private struct State: Sendable {
        var waiting: [[Order]] = Array(repeating: [], count: RoomBackend.threads)
        var underWay = 0
        var answered = 0
        var refused: [String: Int] = [:]
        var isEnding = false
        var answers: [Answer] = []
    }

    /// What became of a publish.
    struct Answer: Sendable {
        let room: Int
        let number: String
        /// Nil: it was published.
        let problem: String?
    }

    private static let threads = 8
    private let state = Locked(State())
    private let credentials: AppCredentials
    private let keepsAnswers: Bool

    /// - Parameter keepsAnswers: whether `takeAnswers` is called, again and again.
    init(_ credentials: AppCredentials, keepsAnswers: Bool = false) {
        self.credentials = credentials
        self.keepsAnswers = keepsAnswers
        for lane in 0..<Self.threads {
            let thread = Thread { [weak self] in
                while let self, work(lane) {}
            }
            thread.start()
        }
    }

    var isIdle: Bool { state.withLock { $0.underWay == 0 } }
    var answered: Int { state.withLock { $0.answered } }
    var refused: [String: Int] { state.withLock { $0.refused } }

    /// The answers since the last call.
    func takeAnswers() -> [Answer] {
        state.withLock { state in
            defer { state.answers = [] }
            return state.answers
        }
    }

    func end() { state.withLock { $0.isEnding = true } }

    func publish(_ number: String, to channel: String, by address: LoadAddress, in room: Int) {
        state.withLock {
            $0.underWay += 1
            $0.waiting[room % Self.threads].append(
                Order(room: room, number: number, channel: channel, address: address))
        }
    }

    /// Returns whether there may be more.
    private func work(_ lane: Int) -> Bool {
        let (order, isEnding) = state.withLock { state in
            (state.waiting[lane].isEmpty ? nil : state.waiting[lane].removeFirst(), state.isEnding)
        }
        guard let order else {
            usleep(500)
            return !isEnding
        }
        let problem = ask(order)
        state.withLock {
            $0.underWay -= 1
            $0.answered += 1
            if keepsAnswers {
                $0.answers.append(Answer(room: order.room, number: order.number, problem: problem))
            }
            if let problem { $0.refused[problem, default: 0] += 1 }
        }
        return true
    }

    /// Nil once it is published; else why not.
    private func ask(_ order: Order) -> String? {
        guard let socket = try? order.address.connect(source: 0) else { return "no connection" }
        defer { close(socket) }
        var request = ByteWriter()
        let body = #"{"name":"e","channel":"\#(order.channel)","data":"\#(order.number)"}"#
        let publish = SignedPublish(app: "1", credentials, frameBytes: 0) { _ in order.channel }
        publish.append(Array(body.utf8), at: time(nil), host: order.address.text, to: &request)
        guard Self.wait(socket, POLLOUT),
            request.withUnsafeBytes({ Glibc.send(socket, $0.baseAddress, $0.count, 0) }) > 0
        else { return "no connection" }
        var answer = [UInt8](repeating: 0, count: 4_096)
        guard Self.wait(socket, POLLIN) else { return "no answer" }
        let count = recv(socket, &answer, answer.count, 0)
        guard count > 12 else { return "no answer" }
        let status = String(decoding: answer[9..<12], as: UTF8.self)
        return status == "200" ? nil : status
    }

    private static func wait(_ socket: Int32, _ event: Int32) -> Bool {
        var one = pollfd(fd: socket, events: Int16(event), revents: 0)
        return poll(&one, 1, 30_000) == 1 && Int32(one.revents) & event != 0
    }
}
