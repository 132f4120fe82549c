import Care
import Foundation
import JSON

// CarillonClient: what happens on a device without a network. The pages say how to use it; this is how it is made.
//
// `Rules` are functions on a `Mirror`, all that the device keeps; `Overlay` is what screens show of it; `Machine` decides
// what is sent; `Store` keeps the mirror in SQLite; `Transport` is the network. The actor carries out what the machine
// decides, and tells apps when a value has changed.

/// A client of one user on this device.
///
/// ```swift
/// let client = try CarillonClient(
///     CarillonOptions(hub: hub, key: "carillon-key", user: "demo", folder: folder) { try await backend.token() })
/// try await client.start()
/// for await today in client.today() { show(today.doses) }
/// ```
public actor CarillonClient {
    /// What the client was made with.
    public nonisolated let options: CarillonOptions
    nonisolated let signals = ClientSignals()
    let store: ClientStore
    let fetcher: ClientFetcher
    var machine: ClientMachine
    var display: ClientDisplay
    var channels = AppChannels()
    var socket: (any TransportSocket)?
    /// Counts connections: what an old one tells is not heard.
    var socketSerial = 0
    var timers: [MachineTimer: DelayedTask] = [:]
    /// Runs while the client is started.
    var heartbeat = Heartbeat()
    var edge = DelayedTask()
    var pace = ComputeThrottle()
    var isClosed = false

    /// Opens the user's store. The values that the device has are there at once; nothing is sent before `start`.
    public init(_ options: CarillonOptions) throws {
        try options.check()
        self.options = options
        fetcher = ClientFetcher(options: options, transport: try options.network())
        store = try ClientStore(options)
        machine = ClientMachine(options)
        display = ClientDisplay(signals, options, channel: machine.channel(.reminders))
        display.show(store.mirror, at: Timestamp(options.now()))
    }

    // MARK: Life

    /// Begins to sync, and goes on until `close`.
    public func start() throws {
        guard !isClosed else { throw CarillonError.closed }
        guard !heartbeat.isBeating else { return }
        beat(0)
        heartbeat.start { [weak self] in await self?.beat($0) }
    }

    /// Looks at what other processes have written, and holds the lease.
    private func beat(_ count: Int) {
        guard !isClosed, count == 0 || heartbeat.isBeating else { return }
        do {
            let isLeading = count % 3 == 0 || store.fence == nil ? try store.lead() : true
            // A store that was full when this process began to lead is tried again.
            if isLeading, !machine.line.isStarted {
                let channels = machine.channels
                let now = Timestamp(options.now())
                try store.write(isFenced: true) { $0.tidy(channels: channels, at: now) }
                perform { machine.start(&$0) }
            } else if !isLeading, machine.line.isStarted {
                perform { machine.stop(&$0) }
            }
            if try store.look() {
                compute()
                pump()
            } else if display.isOld(at: Timestamp(options.now())) {
                compute()
            }
        } catch {
            if store.fence == nil, machine.line.isStarted { perform { machine.stop(&$0) } }
            failed(CarillonError(error))
        }
    }

    /// The network may be back: tries at once.
    public func wake() {
        perform { machine.wake(&$0) }
    }

    /// Call when the system suspends the app: the connection ends, and locks of shared files are released.
    public func suspend() {
        heartbeat.stop()
        perform { machine.stop(&$0) }
        store.resign()
    }

    /// Ends this client's part; the store stays.
    public func close() {
        guard !isClosed else { return }
        suspend()
        isClosed = true
        edge.cancel()
        for timer in timers.keys { timers[timer]?.cancel() }
        store.close()
        signals.connection.set(.closed)
        channels.finish()
        display.finish()
    }

    /// Signs the user out, and deletes what the device keeps. `unsent` says what becomes of actions that no hub has
    /// confirmed.
    public func signOut(unsent: CarillonUnsent = .ask) throws {
        // What another process would append from then on is refused: its file is deleted.
        switch unsent {
        case .keep: return close()
        case .discard: try? keep { $0.set(MirrorKey.signedOut, "1") }
        case .ask: try keep { try $0.signOut() }
        }
        close()
        try ClientStore.remove(options.file)
    }

    /// Deletes what a device keeps of the options' user, with all that no hub has confirmed: of a store that cannot be
    /// opened, such as one that is corrupt. Close its client first.
    public static func removeStore(_ options: CarillonOptions) throws {
        try ClientStore.remove(options.file)
    }

    // MARK: Values

    /// The doses of today, with summary and statistics.
    public nonisolated func today() -> CarillonValues<CarillonToday> { signals.today }

    /// The summaries of the days of a month, such as `2025-11`.
    public func month(_ month: String) -> CarillonValues<[CarillonDay]> {
        if let known = display.month(month) { return known }
        let made = display.addMonth(month)
        machine.months.insert(month)
        compute()
        return made
    }

    /// The rules of reminders, and the days that differ from them.
    public nonisolated func reminders() -> CarillonValues<CarillonReminders> { signals.reminders }

    /// Medications, stacks, and the user's zone.
    public nonisolated func medications() -> CarillonValues<CarillonMedications> { signals.medications }

    /// Conflicts that a person must decide.
    public nonisolated var conflicts: CarillonValues<[CarillonQueued]> { signals.conflicts }

    /// What the hub refuses for good, until `dismiss`.
    public nonisolated var failures: CarillonValues<[CarillonQueued]> { signals.failures }

    /// The number of actions that no hub has confirmed.
    public nonisolated var queueLength: CarillonValues<Int> { signals.queueLength }

    /// When the hub last confirmed what is here.
    public nonisolated var lastSyncAt: CarillonValues<Date> { signals.lastSyncAt }

    /// Where the connection is.
    public nonisolated var connection: CarillonValues<CarillonConnection> { signals.connection }

    /// What went wrong last; nil when all is well.
    public nonisolated var problem: CarillonOptionalValues<CarillonError> { signals.problem }

    /// The device is in another zone than the user's settings: ask the person, then call `setZone`. Nil: it is not.
    public nonisolated var zoneChanged: CarillonOptionalValues<CarillonZoneChange> { signals.zoneChanged }

    /// The id by which the hub knows this device.
    public var deviceID: String { store.mirror.meta[MirrorKey.device] ?? "" }

    /// The user's zone.
    public var zone: String { display.zone(store.mirror) }
}
