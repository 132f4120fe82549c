import Foundation
import Gateway
import Glibc
import TestHub
import TestSupport
import Testing

/// The end of a hub with several loops under load. Each test runs in its own process, so descriptors and threads are its
/// own.
@Suite(.timeLimit(.minutes(15))) struct LoopShutdownTests {
    @Test func everyConnectionIsToldAndNothingIsLeft() async {
        await #expect(processExitsWith: .success) { try await endUnderLoad(loops: 4, connections: 64, idle: 64) }
    }

    @Test func soItIsWithOneLoop() async {
        await #expect(processExitsWith: .success) { try await endUnderLoad(loops: 1, connections: 16, idle: 16) }
    }

    /// While clients still connect: admitted ones are told, all others are closed.
    @Test func alsoWhileOthersCome() async {
        await #expect(processExitsWith: .success) { try await endDuringFlood(loops: 4, senders: 8) }
    }
}

/// A process's descriptors, and its loop threads.
private struct Holdings: Equatable {
    var descriptors: Set<String> = []
    var loops = 0

    init() throws {
        let files = FileManager.default
        for name in try files.contentsOfDirectory(atPath: "/proc/self/fd") {
            // The directory's own descriptor is closed by now.
            guard let target = try? files.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)") else { continue }
            descriptors.insert("\(name) \(target)")
        }
        for task in try files.contentsOfDirectory(atPath: "/proc/self/task") {
            let name = try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)
            if name?.hasPrefix("loop-") == true { loops += 1 }
        }
    }
}

private final class Worker: @unchecked Sendable {
    // The thread writes `result` before it signals; it is read after the wait.
    private let done = DispatchSemaphore(value: 0)
    private var result: Result<[String], any Error> = .success([])

    init(_ body: @escaping @Sendable () throws -> [String]) {
        Thread.detachNewThread { [self] in
            result = Result { try body() }
            done.signal()
        }
    }

    func complaints() throws -> [String] {
        done.wait()
        return try result.get()
    }
}

private let ping = RawFrame.text(#"{"event":"pusher:ping","data":{}}"#).bytes
private let pong = Answer.text(#"{"event":"pusher:pong","data":"{}"}"#)

/// A device that keeps asking until it is told to reconnect, answers the close and reads to the end.
private func talk(_ client: EchoClient, isIdle: Bool) throws -> [String] {
    var complaints: [String] = []
    while true {
        if !isIdle { client.socket.send(ping) }
        switch try client.next() {
        case pong: continue
        case .close(1001):
            client.socket.send(RawFrame.close(1001).bytes)
            let rest = try client.rest()
            if rest != [.end] { complaints.append("after the close: \(rest)") }
            return complaints
        case let other: return complaints + ["\(other) in place of 1001"]
        }
    }
}

private func patientFixture(loops: Int) async throws -> GatewayFixture {
    try await GatewayFixture(loops: loops) {
        // No device is dropped for being slow on a busy machine.
        $0.timeouts.close = .seconds(60)
        $0.timeouts.farewell = .seconds(60)
        $0.admission.exemptsLoopback = true
    }
}

private func require(_ complaints: [String]) {
    guard !complaints.isEmpty else { return }
    FileHandle.standardError.write(Data((complaints.joined(separator: "\n") + "\n").utf8))
    exit(1)
}

private func endUnderLoad(loops: Int, connections: Int, idle: Int) async throws {
    // The first gateway brings what stays: threads of the pool, descriptors of the runtime.
    try await endOnce(loops: loops, connections: 1, idle: 1)
    let before = try Holdings()
    try await endOnce(loops: loops, connections: connections, idle: idle)
    try require { holdings in
        (holdings.loops > 0 ? ["\(holdings.loops) loops still run"] : [])
            + holdings.descriptors.subtracting(before.descriptors).map { "left open: \($0)" }
    }
}

/// Ended threads release their clients and leave /proc a moment later: half a minute is enough.
private func require(_ complaints: (Holdings) -> [String]) throws {
    let end = ContinuousClock.now + .seconds(30)
    var found = complaints(try Holdings())
    while !found.isEmpty, ContinuousClock.now < end {
        sched_yield()
        found = complaints(try Holdings())
    }
    require(found)
}

private func endOnce(loops: Int, connections: Int, idle: Int) async throws {
    let fixture = try await patientFixture(loops: loops)
    let clients = try (0..<connections + idle).map { _ in
        let client = try EchoClient(port: fixture.port, path: "/app/key?protocol=7")
        // The greeting: each is a device before the end begins.
        _ = try client.next()
        return client
    }
    let workers = clients.enumerated().map { number, client in
        // Handed over for good.
        nonisolated(unsafe) let client = client
        return Worker { try talk(client, isIdle: number >= connections) }
    }
    await fixture.end().value
    for worker in workers { require(try worker.complaints()) }
}

private func endDuringFlood(loops: Int, senders: Int) async throws {
    let fixture = try await patientFixture(loops: loops)
    let port = fixture.port
    let workers = (0..<senders).map { _ in
        Worker {
            var complaints: [String] = []
            // Until the port is closed.
            while let socket = try? RawSocket(port: port) {
                guard let client = try? EchoClient(socket, path: "/app/key?protocol=7") else { continue }
                let first = try client.next()
                // A device that is upgraded at the last moment may be told at once.
                guard case .text = first else {
                    if first != .close(1001) && first != .end { complaints.append("greeted by \(first)") }
                    continue
                }
                client.socket.send(ping)
                let answer = try client.next()
                guard answer != pong else { continue }
                if answer != .close(1001) { complaints.append("\(answer) in place of 1001") }
                client.socket.send(RawFrame.close(1001).bytes)
            }
            return complaints
        }
    }
    // Enough devices have come and gone.
    while fixture.accepted < 200 { sched_yield() }
    await fixture.end().value
    for worker in workers { require(try worker.complaints()) }
    try require { $0.loops > 0 ? ["loops still run"] : [] }
}
