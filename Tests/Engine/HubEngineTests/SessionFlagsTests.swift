import TestSupport
import Testing

@testable import HubEngine

@Suite struct SessionFlagsTests {
    @Test(arguments: 0..<20 as Range<UInt64>) func countsAndFlagsKeepApart(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var notes = SessionFlags()
        var (behind, actions) = (0, 0)
        var flags: Set<SessionFlags.Flag> = []
        let all: [SessionFlags.Flag] = [.isExpiryAnnounced, .isVouchedFor, .isAuthorized, .isAnnounced]
        for _ in 0..<200 {
            let count = [0, 1, SessionFlags.countMax, .random(in: 0...SessionFlags.countMax, using: &random)][
                Int.random(in: 0..<4, using: &random)]
            switch Int.random(in: 0..<3, using: &random) {
            case 0:
                behind = count
                notes.behindCount = count
            case 1:
                actions = count
                notes.actionsInFlight = count
            default:
                guard let flag = all.randomElement(using: &random) else { continue }
                if flags.remove(flag) == nil { flags.insert(flag) }
                notes[flag] = flags.contains(flag)
            }
            #expect(notes.behindCount == behind && notes.actionsInFlight == actions)
            #expect(all.filter { notes[$0] } == all.filter { flags.contains($0) })
        }
    }

    /// Whatever the settings allow, a count has room for it.
    @Test func theBoundsFit() {
        let limits = ChannelLimits()
        #expect(limits.actionsPerSessionMax <= SessionFlags.countMax)
        // `limits.channelsPerConnection` is a count of at most 10,000 (SettingsTableTests).
        #expect(10_000 <= SessionFlags.countMax)
    }

    @Test func timesOfAnIdentityAreKeptUpTo2106() {
        for (given, kept) in [
            (nil, nil), (0, 0), (-1, 0), (1_800_000_000, 1_800_000_000), (Int64(UInt32.max) - 1, Int64(UInt32.max) - 1),
            (Int64(UInt32.max), Int64(UInt32.max) - 1), (.max, Int64(UInt32.max) - 1), (.min, 0),
        ] as [(Int64?, Int64?)] {
            let identity = Identity(userID: "u", issuedAt: given, expiresAt: given)
            #expect(identity.issuedAt == kept && identity.expiresAt == kept)
        }
    }
}
