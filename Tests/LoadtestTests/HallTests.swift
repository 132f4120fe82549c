import Bytes
import Pusher
import Reactor
import TestSupport
import Testing

@testable import loadtest

/// What a crowd of channels shows, and what it finds wrong.
@Suite(.ownThread) struct HallTests {
    @Test(arguments: [10, 300, 3_000]) func eachClientHasOneChannel(clients: Int) {
        let halls = Hall.plan(clients: clients)
        #expect(halls.flatMap { Array($0.clients) } == Array(0..<clients))
        #expect(halls.contains { !$0.isPresence } && halls.contains { $0.isPresence })
    }

    @Test func setsAreEqualByWhatIsInThem() {
        var (one, other) = (Bits(), Bits())
        one[3] = true
        #expect(one != other && one.count == 1)
        other[3] = true
        other[200] = true
        other[200] = false
        #expect(one == other && other.numbers == [3])
    }

    /// A client of a channel of three.
    private struct World {
        let script: HallScript
        let swarm: Swarm
        let device: LoadDevice
        let hub: ScriptedHub

        init() throws {
            hub = try ScriptedHub([])
            script = HallScript(
                AppCredentials(key: "key", secret: "secret"), Names(run: "x", topics: []),
                halls: [Hall(first: 0, count: 3, isPresence: true)])
            swarm = try Swarm(
                try LoadAddress("127.0.0.1:\(hub.port)"), target: "/", loop: try EventLoop(), script: script, seed: 1)
            device = try LoadDevice(Recipient(1, user: 0, topics: 0), in: swarm)
        }

        func hears(_ event: String, _ data: String) {
            let text = #"{"event":"\#(event)","channel":"presence-load-x-0","data":"\#(data)"}"#
            Array(text.utf8).withUnsafeBytes { script.received($0, by: device) }
        }

        func isToldOf(_ clients: Int..., count: Int? = nil) {
            let ids = clients.map { #"\"load-x-\#($0)\""# }.joined(separator: ",")
            hears(
                "pusher_internal:subscription_succeeded",
                #"{\"presence\":{\"count\":\#(count ?? clients.count),\"ids\":[\#(ids)],\"hash\":{}}}"#)
        }

        func comes(_ client: Int) { hears("pusher_internal:member_added", #"{\"user_id\":\"load-x-\#(client)\"}"#) }
        func goes(_ client: Int) { hears("pusher_internal:member_removed", #"{\"user_id\":\"load-x-\#(client)\"}"#) }
    }

    @Test func aClientShowsWhatItIsTold() throws {
        let world = try World()
        world.isToldOf(0, 1)
        world.comes(2)
        world.goes(0)
        #expect(world.script.shown[1]?.numbers == [1, 2])
        world.hears("e", "7")
        #expect(world.script.heard[1].numbers == [7])
        #expect(world.script.faults.isEmpty)
    }

    @Test func whatCannotBeIsFound() throws {
        let world = try World()
        world.isToldOf(0, 1, count: 3)
        world.comes(0)
        world.goes(2)
        world.comes(9)
        world.hears("e", "7")
        world.hears("e", "7")
        world.isToldOf(0)
        #expect(world.script.faults.count == 6, "\(world.script.faults)")
        #expect(world.script.faults.values.allSatisfy { $0 == 1 })
    }
}
