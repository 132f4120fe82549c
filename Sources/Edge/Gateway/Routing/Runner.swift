import Reactor

/// Runs inputs one at a time, each with everything that follows from it.
///
/// An input is something said to the engine, to an owner, or by an owner. Its effects are performed at once, except those
/// that are inputs: they join the router's line, behind what waits there. So nothing is nested, and nothing runs twice.
///
/// Worst interleavings, each with its test in `RunnerTests`:
/// - An input closes a connection, whose leaves are inputs. The line takes them, and sending to the others goes on first.
/// - A message in line leads to more. They join the end of the line.
final class Runner {
    let router: Router
    var perform: (consuming OwnerMessage) -> Void = { _ in }
    private var isRunning = false

    init(_ router: Router) {
        self.router = router
    }

    /// Runs an input; within another one, it is a part of that.
    @inline(__always)
    func run<Result>(_ input: () -> Result) -> Result {
        let isPart = isRunning
        isRunning = true
        let result = input()
        if !isPart { end() }
        return result
    }

    @inline(__always)
    private func end() {
        while !router.isIdle, let next = router.next() { perform(next) }
        isRunning = false
    }
}

/// What performs the effects of its inputs, in order.
protocol EffectPerformer: AnyObject {
    associatedtype Performed
    var runner: Runner { get }
    /// Empty; its buffer is reused from one input to the next.
    var effects: ContiguousArray<Performed> { get set }
}

extension EffectPerformer {
    /// Runs an input, and performs its effects. An effect may lead to another input before the next effect: so the buffer is
    /// taken out, and a nested input gets its own.
    ///
    /// `perform` must say that it consumes its effect: with a copy, messages could not be framed in place.
    @inline(__always)
    func run<Result>(
        _ input: (inout ContiguousArray<Performed>) -> Result, _ perform: (consuming Performed) -> Void
    ) -> Result {
        runner.run {
            var effects = exchange(&self.effects, with: [])
            let result = input(&effects)
            effects.turnRound()
            while let effect = effects.popLast() { perform(consume effect) }
            // Larger ones are not kept.
            if effects.capacity <= 64 { self.effects = effects }
            return result
        }
    }
}

extension ContiguousArray {
    /// Reverses the elements, for `popLast` to take them out in order: only from the end are they moved, not copied.
    @inline(__always)
    fileprivate mutating func turnRound() {
        if count > 1 { withUnsafeMutableBufferPointer { $0.reverse() } }
    }
}
