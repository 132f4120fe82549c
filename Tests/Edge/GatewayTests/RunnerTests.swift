import Bytes
import HubEngine
import Pusher
import Reactor
import Sync
import TestSupport
import Testing

@testable import Gateway

/// Inputs run one at a time, each with all its consequences; messages for other loops are in their mailboxes at once.
struct RunnerTests {
    private let metrics = GatewayMetrics()

    private func router(here: Int, loops: Int) throws -> Router {
        let mailboxes = try (0..<loops).map { _ in Mailbox<LoopMessage>(try LoopHandle()) }
        return Router(here: here, on: try EventLoop(), mailboxes, metrics)
    }

    private func join(_ user: String) -> OwnerRequest {
        .leave(StreamName(form: .user, stream: StreamID(user: user, topic: "items")))
    }

    private func text(_ message: OwnerMessage) -> String {
        switch message {
        case .request(.leave(let name), let from): "\(name.stream.user) from \(from)"
        case .news(.users(let news)): "news \(news.count)"
        default: "other"
        }
    }

    /// Worst interleaving: two inputs follow from the first, and one more from each of these. They run breadth first, none
    /// nested.
    @Test func inputsThatFollowRunBreadthFirst() throws {
        let router = try router(here: 0, loops: 1)
        let runner = Runner(router)
        var done: [String] = []
        var depth = 0
        runner.perform = { [unowned runner] message in
            depth += 1
            #expect(depth == 1)
            let text = text(message)
            done.append(text)
            // An input made within another one is part of it.
            runner.run { if text.count < 9 { router.ask(join("\(text.first ?? "?")\(text.first ?? "?")")) } }
            depth -= 1
        }
        let answer = runner.run {
            router.ask(join("a"))
            router.ask(join("b"))
            router.tell(.users([]), loop: 0)
            done.append("input")
            return 7
        }
        #expect(answer == 7)
        #expect(done == ["input", "a from 0", "b from 0", "news 0", "aa from 0", "bb from 0", "nn from 0"])
        #expect(router.next() == nil)
    }

    /// All loops find an owner in the same way, and a single loop owns everything.
    @Test(arguments: [1, 2, 5]) func eachIsAskedWhereItsOwnerIs(_ loops: Int) throws {
        for here in 0..<loops {
            let router = try router(here: here, loops: loops)
            for number in 0..<100 {
                let request = join("u\(number)")
                let owner = Router.owner(of: StreamID(user: "u\(number)", topic: "items"), loops: loops)
                router.ask(request)
                let own = router.next()
                #expect((own != nil) == (owner == here))
                #expect(own.map { text($0) == "u\(number) from \(here)" } ?? true)
            }
            router.tell(.users([]), loops: LoopSet(rawValue: (1 << UInt64(loops)) - 1))
            #expect(router.next().map(text) == "news 0" && router.next() == nil)
        }
    }

    /// A backend's or client's message counts from its posting until the mailbox hands it out.
    @Test func whatIsBetweenLoopsCounts() throws {
        let router = try router(here: 0, loops: 2)
        let key = ChannelKey(3, try #require(ChannelName("news")))
        let frame = SharedBytes.copy("x")
        let event = OwnerNews.publish(key, frame, except: nil, nil, isEvent: true)
        router.tell(event, loop: 0)
        #expect(metrics.publishes.count == 0, "what stays here is done before anything else comes")
        router.tell(event, loop: 1)
        router.tell(.publish(key, frame, except: nil, nil, isEvent: false), loop: 1)
        #expect(metrics.publishes.count == 1)
        router.received(.news(event))
        #expect(metrics.publishes.count == 0)
        let name = StreamName(form: .user, stream: StreamID(user: "u", topic: "items"))
        router.tell(.event(name, offset: 1, frame, nil), loop: 1)
        #expect(metrics.backlog.broadcastCount == 1)
        router.received(.news(.event(name, offset: 1, frame, nil)))
        #expect(metrics.backlog.broadcastCount == 0)
    }
}
