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
        case .timer(let timer, let milliseconds): schedule(timer, milliseconds)
        case .cancel(let timer): timers.removeValue(forKey: timer)?.cancel()
        case .connection(let state): signals.connection.set(state)
        case .problem(let error): if let error { failed(error) } else { signals.problem.set(nil) }
        case .changed: break
        case .message(let channel, let event, let data):
            for listener in listeners[channel, default: [:]].values {
                listener.yield(CarillonMessage(event: event, data: data))
            }
        }
    }

    func failed(_ error: CarillonError) {
        if error == .notLeading {
            perform { machine.stop(&$0) }
        } else if error != .closed {
            signals.problem.set(error)
        }
    }

    private func schedule(_ timer: MachineTimer, _ milliseconds: Int) {
        timers[timer]?.cancel()
        timers[timer] = Task { [weak self] in
            guard (try? await Task.sleep(nanoseconds: UInt64(max(0, milliseconds)) * 1_000_000)) != nil else { return }
            await self?.due(timer)
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
        Task { [transport, weak self] in
            do {
                let socket = try await transport.connect(to: url)
                guard await self?.opened(socket, serial) == true else {
                    socket.close()
                    return
                }
                while true {
                    let events = await socket.inbox.next()
                    guard !events.isEmpty, await self?.heard(events, serial) == true else { return }
                }
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
        let texts = events.compactMap { event -> String? in
            if case .text(let text) = event { text } else { nil }
        }
        let now = options.now()
        perform { machine.hear(texts, store, at: Timestamp(now), random: random, &$0) }
        if case .closed(let code, let reason) = events.last {
            perform { machine.lost(code: code, reason: reason, random: random, &$0) }
            return false
        }
        tellSync(now)
        return serial == socketSerial
    }

    /// Notes when the hub has confirmed what is here.
    private func tellSync(_ now: Date) {
        guard machine.isCaughtUp(store.mirror), now.timeIntervalSince(syncedAt) >= 1 else { return }
        syncedAt = now
        let text = TimeText.text(Timestamp(now))
        do {
            try store.write(isFenced: true) { $0.set(MirrorKey.lastSync, text) }
            computeSoon()
        } catch {
            failed(CarillonError(error))
        }
    }

    // MARK: The app's backend, and HTTP

    private func token() async -> Result<String, CarillonError> {
        do {
            let token = try await options.token()
            return token.isEmpty ? .failure(.noToken) : .success(token)
        } catch {
            return .failure(error as? CarillonError ?? .noToken)
        }
    }

    private func giveToken(_ serial: Int) async {
        let result = await token()
        perform { machine.token(result, serial: serial, random: random, &$0) }
    }

    private func fetch(_ topic: Topic, _ parts: [ClientSnapshot.Part], _ serial: Int) async {
        var snapshots: [ClientSnapshot] = []
        var result: Result<[ClientSnapshot], CarillonError> = .success([])
        do {
            for part in parts { snapshots.append(try await get(part)) }
            result = .success(snapshots)
        } catch {
            result = .failure(CarillonError(error))
        }
        guard !isClosed else { return }
        perform { machine.fetched(topic, result, serial: serial, store, random: random, &$0) }
        // No message has to follow.
        tellSync(options.now())
    }

    private func get(_ part: ClientSnapshot.Part) async throws -> ClientSnapshot {
        guard let url = options.url(of: part) else { throw CarillonError.invalid("the hub's address") }
        let token = try await token().get()
        let reply = try await transport.get(url, fields: ["Authorization": "Bearer \(token)"])
        guard reply.status == 200 else { throw CarillonError.http(reply.status) }
        guard let position = reply.fields["x-sync-position"], let colon = position.lastIndex(of: ":"),
            let offset = Int64(position[position.index(after: colon)...]),
            let body = try? JSONTree(String(decoding: reply.body, as: UTF8.self))
        else { throw CarillonError.network("the answer has no position") }
        return ClientSnapshot(
            part: part, body: body, position: StoredPosition(epoch: String(position[..<colon]), offset: offset))
    }

    // MARK: Channels of the app's own

    /// Joins any channel of the hub. The subscription ends with the stream.
    public func subscribe(_ channel: String) -> AsyncStream<CarillonMessage> {
        let (stream, continuation) = AsyncStream<CarillonMessage>.makeStream(bufferingPolicy: .bufferingNewest(1000))
        guard !isClosed else {
            continuation.finish()
            return stream
        }
        listenerSerial += 1
        let serial = listenerSerial
        listeners[channel, default: [:]][serial] = continuation
        continuation.onTermination = { [weak self] _ in Task { await self?.unsubscribe(channel, serial) } }
        perform { machine.subscribe(channel, &$0) }
        return stream
    }

    private func unsubscribe(_ channel: String, _ serial: Int) {
        listeners[channel]?[serial] = nil
        guard listeners[channel]?.isEmpty == true else { return }
        listeners[channel] = nil
        if !isClosed { perform { machine.unsubscribe(channel, &$0) } }
    }
}
