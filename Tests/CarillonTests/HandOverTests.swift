import Testing

@testable import carillon

/// Transcripts of what one hub hears and does; then two hubs and a third, with every order of what may happen.
@Suite(.timeLimit(.minutes(15)))
struct HandOverTests {
    private func hub(hasPredecessor: Bool = false, pauses: Bool = false, _ inputs: HandOver.Input...) -> HandOver {
        var hub = HandOver(hasPredecessor: hasPredecessor, pauses: pauses)
        for input in inputs { _ = hub.received(input) }
        return hub
    }

    private static let takeOver = HandOver.Input.asked(1, .takeOver(version: ControlRequest.version))

    @Test func theOldHubServesUntilTheNewOneAccepts() {
        var hub = hub(.ready)
        #expect(hub.received(Self.takeOver) == [.share(true), .offer(1)])
        #expect(hub.state == .offering(to: 1))
        #expect(hub.received(.asked(1, .ready)) == [.accept(false), .drain(.successor), .answer(1, .relieved)])
        #expect(hub.received(.drained) == [.end])
        #expect(hub.state == .ended)
    }

    @Test func theNewHubAcceptsBeforeItSaysSo() {
        var hub = hub(hasPredecessor: true)
        #expect(hub.state == .preparing)
        #expect(hub.received(.ready) == [.accept(true), .tellPredecessor])
        #expect(hub.received(.predecessorGone) == [.share(false)])
        #expect(hub.state == .serving && !hub.hasPredecessor)
    }

    @Test func aSuccessorThatGoesEarlyChangesNothing() {
        var hub = hub(.ready, Self.takeOver)
        #expect(hub.received(.gone(1)) == [.share(false)])
        #expect(hub.state == .serving)
        #expect(hub.received(.asked(2, .takeOver(version: 1))) == [.share(true), .offer(2)])
    }

    @Test func aSuccessorThatGoesLateIsReplacedByTheOldHub() {
        var hub = hub(.ready, Self.takeOver, .asked(1, .ready))
        #expect(hub.received(.gone(1)) == [.share(false), .accept(true), .drain(nil)])
        #expect(hub.state == .serving)
        #expect(hub.received(.drained) == [])
    }

    @Test func anOldHubThatGoesEarlyIsReplacedAtOnce() {
        var hub = hub(hasPredecessor: true)
        #expect(hub.received(.predecessorGone) == [.share(false), .accept(true)])
        #expect(hub.received(.ready) == [])
    }

    @Test func readinessCountsFromTheSuccessorAlone() {
        var hub = hub(.ready, Self.takeOver)
        #expect(hub.received(.asked(2, .ready)) == [.hangUp(2)])
        #expect(hub.state == .offering(to: 1))
    }

    @Test func aThirdHubIsToldToAskLater() {
        var hub = hub(.ready, Self.takeOver)
        #expect(hub.received(.asked(2, .takeOver(version: 1))) == [.answer(2, .later("another hub is taking over"))])
        var successor = self.hub(hasPredecessor: true, .ready)
        #expect(
            successor.received(Self.takeOver)
                == [.answer(1, .later("the hub before this one still closes its clients"))])
        _ = successor.received(.predecessorGone)
        #expect(successor.received(Self.takeOver) == [.share(true), .offer(1)])
    }

    @Test func otherVersionsAreRefused() {
        var hub = hub(.ready)
        let effects = hub.received(.asked(1, .takeOver(version: 2)))
        guard case .answer(1, .refused(_))? = effects.first, effects.count == 1 else {
            Issue.record("\(hub.state)")
            return
        }
        #expect(hub.state == .serving)
    }

    @Test func aDrainByHandIsTakenBack() {
        var hub = hub(.ready)
        #expect(hub.received(.asked(1, .drain)) == [.answer(1, .draining), .drain(.hand)])
        #expect(hub.received(.asked(2, .drain)) == [.answer(2, .draining)])
        #expect(
            hub.received(.asked(3, .cancel))
                == [.drain(nil), .answer(1, .cancelled), .answer(2, .cancelled), .answer(3, .cancelled)])
        #expect(hub.state == .serving)
        #expect(hub.received(.asked(3, .cancel)) == [.answer(3, .refused("no drain is under way"))])
    }

    @Test func aDrainByHandEndsAndTheHubLives() {
        var hub = hub(.ready, .asked(1, .drain), .asked(2, .drain), .gone(1))
        #expect(hub.received(.drained) == [.answer(2, .drained)])
        #expect(hub.state == .draining)
        let effects = hub.received(.asked(4, .takeOver(version: 1)))
        guard case .answer(4, .refused(_))? = effects.first, effects.count == 1 else {
            Issue.record("\(hub.state)")
            return
        }
        #expect(hub.received(.signal) == [.end])
    }

    @Test func aSignalEndsAtOnceUnlessBalancersNeedTime() {
        var hub = hub(.ready)
        #expect(hub.received(.signal) == [.end])
        var pausing = self.hub(pauses: true, .ready)
        #expect(pausing.received(.signal) == [.drain(.signal)])
        #expect(pausing.received(.asked(1, .drain)) == [.answer(1, .refused("this hub ends"))])
        #expect(pausing.received(Self.takeOver) == [.answer(1, .later("this hub ends"))])
        #expect(pausing.received(.drained) == [.end])
        var activated = HandOver(hasPredecessor: false, pauses: false, outlives: true)
        _ = activated.received(.ready)
        #expect(activated.received(.signal) == [.accept(false), .drain(.restart)])
        #expect(activated.received(.drained) == [.end])
        var starting = self.hub(pauses: true)
        #expect(starting.received(.signal) == [.end], "nobody has found it yet")
    }

    /// Somebody else holds the sockets, and who has connected to this hub is answered by it alone.
    @Test func aSignalNeverCutsOffWhoHasConnected() {
        let restart = [HandOver.Effect.accept(false), .drain(.restart)]
        func activated(pauses: Bool = false) -> HandOver {
            HandOver(hasPredecessor: false, pauses: pauses, outlives: true)
        }
        var starting = activated()
        #expect(starting.received(.signal) == restart, "clients may come before it is ready")
        var byHand = activated()
        for input in [HandOver.Input.ready, .asked(1, .drain)] { _ = byHand.received(input) }
        #expect(byHand.received(.signal) == restart)
        #expect(byHand.received(.drained) == [.end])
        var relieved = hub(.ready, Self.takeOver, .asked(1, .ready))
        #expect(relieved.received(.signal) == restart)
        #expect(relieved.received(.gone(1)) == [], "it was told to end")
        #expect(relieved.received(.drained) == [.end])
        // Behind a balancer it accepts until it has closed its clients, and then no more.
        var balanced = activated(pauses: true)
        _ = balanced.received(.ready)
        #expect(balanced.received(.signal) == [.drain(.signal)])
        #expect(balanced.received(.drained) == restart)
        #expect(balanced.received(.drained) == [.end])
    }

    @Test func aSignalHangsUpFirst() {
        var old = hub(.ready, Self.takeOver)
        #expect(old.received(.signal) == [.hangUp(1), .accept(false), .drain(.restart)])
        #expect(old.received(.drained) == [.end])
        var new = hub(hasPredecessor: true, .ready)
        #expect(new.received(.signal) == [.leavePredecessor, .accept(false), .drain(.restart)])
        var preparing = hub(hasPredecessor: true)
        #expect(preparing.received(.signal) == [.end])
    }

    // MARK: All orders

    /// Two hubs, what is on its way between them, and who accepts.
    private struct World {
        enum Step: CaseIterable {
            case deliverToOld, deliverToNew, newReady, killOld, killNew, signalOld, signalNew, oldDrained
            case newDrained
        }

        var (old, new) = (HandOver(hasPredecessor: false, pauses: false), HandOver(hasPredecessor: true, pauses: false))
        var (oldAccepts, newAccepts) = (true, false)
        var (oldLives, newLives) = (true, true)
        /// The connection between them is open at this side.
        var (oldHolds, newHolds) = (true, true)
        var toOld: [HandOver.Input] = []
        /// Whether the old hub's end, or its hanging up, has still to be noticed.
        var newHears = false
        var (oldDrains, newDrains) = (false, false)
        var path: [Step] = []

        init() {
            _ = old.received(.ready)
            _ = old.received(HandOverTests.takeOver)
        }

        func allows(_ step: Step) -> Bool {
            switch step {
            case .deliverToOld: oldLives && !toOld.isEmpty
            case .deliverToNew: newLives && newHears
            case .newReady: newLives && new.state == .preparing
            case .killOld: oldLives
            case .killNew: newLives
            // A second one kills.
            case .signalOld: oldLives && old.state != .leaving
            case .signalNew: newLives && new.state != .leaving
            case .oldDrained: oldLives && oldDrains
            case .newDrained: newLives && newDrains
            }
        }

        mutating func take(_ step: Step) {
            path.append(step)
            switch step {
            case .deliverToOld: performOld(old.received(toOld.removeFirst()))
            case .deliverToNew:
                newHears = false
                newHolds = false
                performNew(new.received(.predecessorGone))
            case .newReady: performNew(new.received(.ready))
            case .killOld: oldGoes()
            case .killNew: newGoes()
            case .signalOld: performOld(old.received(.signal))
            case .signalNew: performNew(new.received(.signal))
            case .oldDrained: performOld(old.received(.drained))
            case .newDrained: performNew(new.received(.drained))
            }
        }

        private mutating func performOld(_ effects: [HandOver.Effect]) {
            for effect in effects {
                switch effect {
                case .accept(let accepts): oldAccepts = accepts
                case .drain(let manner): oldDrains = manner != nil
                case .hangUp: oldHangsUp()
                case .end: oldGoes()
                default: break
                }
            }
        }

        private mutating func performNew(_ effects: [HandOver.Effect]) {
            for effect in effects {
                switch effect {
                case .accept(let accepts): newAccepts = accepts
                case .tellPredecessor: if newHolds, oldHolds { toOld.append(.asked(1, .ready)) }
                case .leavePredecessor: newHangsUp()
                case .drain: newDrains = true
                case .end: newGoes()
                default: break
                }
            }
        }

        private mutating func oldHangsUp() {
            if oldHolds, newHolds { newHears = true }
            (oldHolds, toOld) = (false, [])
        }

        private mutating func newHangsUp() {
            if newHolds, oldHolds { toOld.append(.gone(1)) }
            newHolds = false
        }

        private mutating func oldGoes() {
            oldHangsUp()
            (oldLives, oldAccepts) = (false, false)
        }

        private mutating func newGoes() {
            newHangsUp()
            (newLives, newAccepts) = (false, false)
        }

        /// Somebody accepts, or one that lives has still to hear that the other does not; or all were told to end.
        var isServed: Bool {
            oldAccepts || newAccepts || (oldLives && !toOld.isEmpty) || (newLives && newHears)
                || (hasEnded(old, oldLives) && hasEnded(new, newLives))
        }

        private func hasEnded(_ hub: HandOver, _ lives: Bool) -> Bool { !lives || hub.state == .leaving }
    }

    @Test func oneServesWhateverHappensInAnyOrder() {
        var (count, worlds) = (0, [World()])
        while let world = worlds.popLast() {
            count += 1
            if world.oldLives || world.newLives, !world.isServed {
                Issue.record("nobody serves after \(world.path): \(world.old.state), \(world.new.state)")
                return
            }
            // Both at once, for good: a client's peer events would be split.
            if world.oldAccepts, world.newAccepts, world.toOld.isEmpty, !world.newHears {
                Issue.record("both serve after \(world.path)")
                return
            }
            for step in World.Step.allCases where world.allows(step) {
                var next = world
                next.take(step)
                worlds.append(next)
            }
        }
        #expect(count > 50)
    }
}
