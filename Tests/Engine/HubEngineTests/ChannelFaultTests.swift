import HubEngine
import Pusher
import TestSupport
import Testing

/// A state that is elsewhere, behind a way that loses, doubles and delays: once it is well again, and says so, this hub, the
/// state and all clients say the same, and nothing is left over.
@Suite struct ChannelFaultTests {
    @Test(arguments: 0..<100 as Range<UInt64>) func allAgreeOnceTheWayIsWell(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let world = ChannelWorld(loops: Int.random(in: 1...2, using: &random), slow: seed) {
            $0.subscriptionCounts = true
        }
        let names = ["news", "presence-x", "presence-cache-y", "cache-z"]
        var faults = SlowLink.Faults()
        faults.lostCalls = Int.random(in: 0...8, using: &random)
        faults.lostChanges = Int.random(in: 0...8, using: &random)
        faults.lostReplies = Int.random(in: 0...8, using: &random)
        faults.doubled = Int.random(in: 0...8, using: &random)
        var wires: [(wire: ChannelWorld.Wire, user: String)] = []
        for _ in 0..<4 {
            for link in world.links { link.faults = faults }
            for _ in 0..<150 {
                let name = names[Int.random(in: names.indices, using: &random)]
                let one = wires.randomElement(using: &random)
                switch Int.random(in: 0..<12, using: &random) {
                case 0 where wires.count < 6:
                    let loop = Int.random(in: 0..<world.loopCount, using: &random)
                    wires.append((world.connect(loop), "u\(Int.random(in: 0..<3, using: &random))"))
                case 1:
                    guard let one else { continue }
                    wires.removeAll { $0.wire === one.wire }
                    world.disconnect(one.wire)
                case 2, 3, 4:
                    guard let one else { continue }
                    try world.subscribe(name, user: name.hasPrefix("presence") ? one.user : nil, one.wire)
                case 5:
                    guard let one else { continue }
                    try world.unsubscribe(name, one.wire)
                    one.wire.heard.append("left \(name)")
                case 6: world.publish(name, "e", "1")
                case 7: world.advance(.milliseconds(Int.random(in: 0..<1_500, using: &random)))
                default: world.look(at: Int.random(in: 0..<world.loopCount, using: &random))
                }
            }
            for link in world.links { link.faults = SlowLink.Faults() }
            world.gap()
            // Beyond what is waited for, twice over.
            for _ in 0..<6 {
                world.settle()
                world.advance(.seconds(6))
            }
            world.settle()
            for name in names { try check(name, world, wires, "seed \(seed) \(name)") }
        }
        for (wire, _) in wires { world.disconnect(wire) }
        for _ in 0..<4 {
            world.settle()
            world.advance(.seconds(6))
        }
        world.advance(.seconds(1_800))
        world.settle()
        #expect(world.channelCount == 0 && world.localCount == 0, "seed \(seed)")
    }

    private func check(
        _ name: String, _ world: ChannelWorld, _ wires: [(wire: ChannelWorld.Wire, user: String)], _ note: String
    ) throws {
        // A subscribe may have been refused: nobody could say who is in.
        let inside = wires.filter { world.isSubscribed($0.wire, to: name) }
        #expect(world.facts(name).subscriptionCount == inside.count, "\(note)")
        guard name.hasPrefix("presence") else { return }
        let users = Set(inside.map(\.user))
        #expect(world.users(name) == users, "\(note)")
        for (wire, user) in inside {
            var known: Set<String> = []
            for text in wire.heard {
                if text == "left \(name)" { known = [] }
                guard text.contains(#""channel":"\#(name)""#) else { continue }
                if text.contains("subscription_succeeded") {
                    known = Set(text.matches(of: /\\"(u[0-9])\\":/).map { String($0.output.1) })
                } else if let found = text.firstMatch(of: /user_id\\":\\"(u[0-9])/) {
                    if text.contains("member_added") { known.insert(String(found.output.1)) }
                    if text.contains("member_removed") { known.remove(String(found.output.1)) }
                }
            }
            #expect(known.union([user]) == users, "\(note) \(user)")
        }
    }
}
