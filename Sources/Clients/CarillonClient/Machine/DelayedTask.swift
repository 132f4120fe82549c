import Foundation

/// Something that is to be done once, later. Setting it again takes the place of what was set.
struct DelayedTask {
    private var task: Task<Void, Never>?

    var isSet: Bool { task != nil }

    mutating func set(nanoseconds: UInt64, _ action: @escaping @Sendable () async -> Void) {
        task?.cancel()
        task = Task {
            guard (try? await Task.sleep(nanoseconds: nanoseconds)) != nil else { return }
            await action()
        }
    }

    mutating func cancel() {
        task?.cancel()
        task = nil
    }
}

/// Beats once a second until it is stopped.
struct Heartbeat {
    private var task: Task<Void, Never>?

    var isBeating: Bool { task != nil }

    /// Calls `beat` with its number, from 1 on.
    mutating func start(_ beat: @escaping @Sendable (Int) async -> Void) {
        task = Task {
            var count = 0
            while !Task.isCancelled {
                // Cancelled while it slept, it must not beat once more: the app is suspended.
                guard (try? await Task.sleep(nanoseconds: 1_000_000_000)) != nil else { return }
                count += 1
                await beat(count)
            }
        }
    }

    mutating func stop() {
        task?.cancel()
        task = nil
    }
}

/// How often values are computed: while much changes, that takes a tenth of the time at most.
struct ComputeThrottle {
    /// The computation that waits.
    var task = DelayedTask()
    /// Before then, what the hub tells is not computed.
    private var notBefore = DispatchTime(uptimeNanoseconds: 0)

    private static let longest: UInt64 = 500_000_000

    mutating func computed(since begin: DispatchTime) {
        let end = DispatchTime.now()
        let pause = min(9 * (end.uptimeNanoseconds - begin.uptimeNanoseconds), Self.longest)
        notBefore = DispatchTime(uptimeNanoseconds: end.uptimeNanoseconds + pause)
    }

    /// How long to wait; nil: it may be computed at once.
    var wait: UInt64? {
        let now = DispatchTime.now()
        return now < notBefore ? notBefore.uptimeNanoseconds - now.uptimeNanoseconds : nil
    }
}
