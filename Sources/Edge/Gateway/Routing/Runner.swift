import Reactor

/// Carries out inputs one at a time, each with all that follows from it.
///
/// An input is something said to the engine, to an owner, or by an owner. What it wants done is done at once, but for what is
/// itself an input: that waits in the router's line, and is carried out behind what waits there already. So nothing is
/// nested, and nothing is carried out twice.
///
/// Worst interleavings, each with its test in `RunnerTests`:
/// - an input closes a connection, whose leaves are inputs: the line takes them, and what is being sent to the others
///   goes on first;
/// - what waits in line leads to more: that stands behind all that waited before it.
final class Runner {
    let router: Router
    /// Carries out one message in line.
    var perform: (consuming OwnerMessage) -> Void = { _ in }
    private var isRunning = false

    init(_ router: Router) {
        self.router = router
    }

    /// Carries out an input; within another one, it is a part of that.
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

extension ContiguousArray {
    /// Puts the last element first, for `popLast` to take all out in order: from there alone they are moved, not copied.
    @inline(__always)
    mutating func turnRound() {
        if count > 1 { withUnsafeMutableBufferPointer { $0.reverse() } }
    }
}
