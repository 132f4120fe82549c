import Care
import Foundation
import JSON

// Carries out what the machine decides.

extension CarillonClient {
    private var random: Double { Double.random(in: 0..<1) }

    /// One input: what follows from it is carried out in order.
    func perform(_ input: (inout [ClientEffect]) -> Void) {
        var effects: [ClientEffect] = []
        input(&effects)
        var isChanged = false
        for effect in effects {
            if case .changed = effect { isChanged = true } else { carryOut(effect) }
        }
        if isChanged { computeSoon() }
    }

    func pump() {
        guard store.fence != nil else { return }
        perform { machine.pump(store, random: random, &$0) }
    }

    private func carryOut(_ effect: ClientEffect) {
        switch effect {
        case .connect: connect()
        case .disconnect: disconnect()
        case .send(let text): socket?.send(text)
        case .token(let serial): Task { await giveToken(serial) }
        case .fetch(let topic, let parts, let serial): Task { await fetch(topic, parts, serial) }
        case .authorize(let channel, let socketID, let serial): Task { await authorize(channel, socketID, serial) }
        case .timer(let timer, let milliseconds):
            let wait = UInt64(max(0, milliseconds)) * 1_000_000
            timers[timer, default: DelayedTask()].set(nanoseconds: wait) { [weak self] in await self?.due(timer) }
        case .cancel(let timer): timers[timer]?.cancel()
        case .connection(let state): signals.connection.set(state)
        case .problem(let error): if let error { failed(error) } else { signals.problem.set(nil) }
        case .changed: break
        case .message(let channel, let event, let data):
            channels.tell(channel, CarillonMessage(event: event, data: data))
        }
    }

    func failed(_ error: CarillonError) {
        if error == .notLeading {
            perform { machine.stop(&$0) }
        } else if error != .closed {
            signals.problem.set(error)
        }
    }

    private func due(_ timer: MachineTimer) {
        // Cancelled while it waited for the actor.
        guard !Task.isCancelled, !isClosed else { return }
        timers[timer] = nil
        perform { machine.timer(timer, store, random: random, &$0) }
    }

    // MARK: The connection

    private func disconnect() {
        socketSerial += 1
        socket?.close()
        socket = nil
    }

    private func connect() {
        disconnect()
        let serial = socketSerial
        guard let url = options.socketURL else { return }
        Task { [transport = fetcher.transport, weak self] in
            do {
                let socket = try await transport.connect(to: url)
                guard await self?.opened(socket, serial) == true else {
                    socket.close()
                    return
                }
                await socket.inbox.read { await self?.heard($0, serial) == true }
            } catch {
                await self?.notOpened(CarillonError(error), serial)
            }
        }
    }

    private func opened(_ socket: any TransportSocket, _ serial: Int) -> Bool {
        guard serial == socketSerial, !isClosed else { return false }
        self.socket = socket
        return true
    }

    private func notOpened(_ error: CarillonError, _ serial: Int) {
        guard serial == socketSerial, !isClosed else { return }
        failed(error)
        perform { machine.lost(code: 1006, reason: "", random: random, &$0) }
    }

    private func heard(_ events: [SocketEvent], _ serial: Int) -> Bool {
        guard serial == socketSerial, !isClosed else { return false }
        let now = Timestamp(options.now())
        perform { machine.hear(events.compactMap(\.text), store, at: now, random: random, &$0) }
        if case .closed(let code, let reason) = events.last {
            perform { machine.lost(code: code, reason: reason, random: random, &$0) }
            return false
        }
        perform { machine.noteSync(store, at: now, &$0) }
        return serial == socketSerial
    }

    // MARK: The app's backend, and HTTP

    private func giveToken(_ serial: Int) async {
        let result = await fetcher.token()
        perform { machine.token(result, serial: serial, random: random, &$0) }
    }

    private func fetch(_ topic: Topic, _ parts: [ClientSnapshot.Part], _ serial: Int) async {
        let result = await fetcher.fetch(parts)
        guard !isClosed else { return }
        perform { machine.fetched(topic, result, serial: serial, store, random: random, &$0) }
        // No message has to follow.
        perform { machine.noteSync(store, at: Timestamp(options.now()), &$0) }
    }

    // MARK: Channels of the app's own

    private func authorize(_ channel: String, _ socketID: String, _ serial: Int) async {
        let result = await fetcher.authorization(of: channel, socketID)
        guard !isClosed else { return }
        perform { machine.authorized(channel, serial: serial, result, &$0) }
    }

    /// Joins any channel of the hub; private and presence ones need the option `authorize`. The subscription ends with the
    /// stream.
    public func subscribe(_ channel: String) -> AsyncStream<CarillonMessage> {
        guard !isClosed else { return AsyncStream { $0.finish() } }
        let stream = channels.add(channel) { [weak self] serial in
            Task { await self?.unsubscribe(channel, serial) }
        }
        perform { machine.subscribe(channel, &$0) }
        return stream
    }

    private func unsubscribe(_ channel: String, _ serial: Int) {
        guard channels.remove(channel, serial), !isClosed else { return }
        perform { machine.unsubscribe(channel, &$0) }
    }
}
