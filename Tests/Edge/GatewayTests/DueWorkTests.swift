import Clock
import Reactor
import TestSupport
import Testing

@testable import Gateway

/// Due work is done once, on time, after the mail that is already there.
struct DueWorkTests {
    private final class World {
        let loop: EventLoop
        let work: DueWork
        var posted = 0
        var done: [DueWork.Kind] = []
        /// The message of a kind.
        var again: [DueWork.Kind: (DueWork) -> Void] = [:]

        init() throws {
            loop = try EventLoop()
            let posts = Locked(0)
            work = try DueWork(on: loop) { posts.withLock { $0 += 1 } }
            self.posts = posts
            work.perform = { [unowned self] kind in
                done.append(kind)
                again[kind]?(work)
            }
        }

        private let posts: Locked<Int>

        deinit { loop.remove(work) }

        /// The messages posted since the last call.
        func mail() -> Int { posts.withLock { exchange(&$0, with: 0) } }

        /// Ticks until a message has been posted.
        func wait() throws {
            let patience = Instant.read().advanced(by: .seconds(60))
            while posts.withLock({ $0 }) == 0 {
                try #require(Instant.read() < patience)
                loop.tick(waitingAtMost: .milliseconds(5))
            }
        }
    }

    @Test func whatIsDueNowWaitsForOneMessage() throws {
        let world = try World()
        world.work.setNow(.turns)
        world.work.setNow(.departures)
        #expect(world.mail() == 1 && world.done.isEmpty)
        world.work.turn()
        #expect(world.done == [.departures, .turns] && world.mail() == 0)
        world.work.turn()
        #expect(world.done.count == 2, "nothing is done twice")
    }

    /// More is due than one turn does: the rest is queued after the mail that came meanwhile.
    @Test func moreOfTheSameIsAnotherMessage() throws {
        let world = try World()
        world.again[.turns] = { $0.setNow(.turns) }
        world.work.setNow(.turns)
        world.work.turn()
        #expect(world.done == [.turns] && world.mail() == 2)
        world.again = [:]
        world.work.turn()
        #expect(world.done == [.turns, .turns] && world.mail() == 0)
    }

    @Test func theDeadlineIsTheEarliestOfAll() throws {
        let world = try World()
        let now = world.loop.now
        world.work.set(.users, at: now.advanced(by: .seconds(3_600)))
        world.work.set(.channels, at: now.advanced(by: .milliseconds(20)))
        try world.wait()
        #expect(world.mail() == 1)
        world.work.turn()
        #expect(world.done == [.channels] && world.work.isSet(.users) && !world.work.isSet(.channels))
        // A cancelled time posts nothing, and a later time replaces an earlier one.
        world.work.set(.channels, at: world.loop.now.advanced(by: .milliseconds(10)))
        world.work.set(.channels, at: nil)
        world.work.set(.users, at: world.loop.now.advanced(by: .milliseconds(30)))
        try world.wait()
        world.work.turn()
        #expect(world.done == [.channels, .users] && !world.work.isSet(.users))
    }

    @Test func workThatBecomesDueInFlightIsDoneByTheSameMessage() throws {
        let world = try World()
        world.work.setNow(.apps)
        world.work.setNow(.channels)
        world.work.set(.apps, at: nil)
        #expect(world.mail() == 1)
        world.work.turn()
        #expect(world.done == [.channels])
    }

    /// A loop that ends has no deadlines; work due at once is still done.
    @Test func aLoopThatEndsFinishesWhatIsDueNow() throws {
        let world = try World()
        world.loop.remove(world.work)
        world.work.set(.users, at: world.loop.now.advanced(by: .seconds(1)))
        #expect(world.loop.sourceCount == 0 && world.mail() == 0)
        world.work.setNow(.departures)
        #expect(world.mail() == 1)
        world.work.turn()
        #expect(world.done == [.departures])
    }
}
