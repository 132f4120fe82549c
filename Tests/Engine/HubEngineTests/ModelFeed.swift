import Bytes
import HubEngine
import Sync

/// A log with retention and resets, and a feed that delivers it like `Feed`: positions, events in order, resets, pages.
final class ModelFeed {
    struct Log {
        var epoch = "e"
        /// Events up to here are deleted.
        var floor: Int64 = 0
        var top: Int64 = 0

        var position: StreamPosition { StreamPosition(epoch: epoch, offset: top) }
    }

    enum Request {
        case watch(StreamID, UInt32), unwatch(StreamID), read(StreamRead)
    }

    private struct Watch {
        let serial: UInt32
        var epoch: String
        var delivered: Int64
    }

    var logs: [StreamID: Log] = [:]
    var requests: [Request] = []
    /// Reads taken but not answered.
    private(set) var reads: [StreamRead] = []
    private var watches: [StreamID: Watch] = [:]
    /// The most events of one page.
    var pageEvents = 4
    private(set) var readCount = 0
    private(set) var confirmationCount = 0

    static func data(_ epoch: String, _ offset: Int64) -> String { "\(epoch)/\(offset)" }

    private func event(_ id: StreamID, _ log: Log, _ offset: Int64) -> StreamEvent {
        StreamEvent(stream: id, offset: offset, name: "x", data: .copy(Self.data(log.epoch, offset)))
    }

    /// Commits another event of the stream.
    func commit(_ id: StreamID) {
        logs[id, default: Log()].top += 1
    }

    /// The database was restored or failed over: a new epoch, which may end before the old one.
    func lose(_ id: StreamID, epoch: String, top: Int64) {
        var log = logs[id, default: Log()]
        log.epoch = epoch
        log.top = top
        log.floor = min(log.floor, top)
        logs[id] = log
    }

    /// Processes the next request.
    func answer() -> LoopWorld.Message? {
        guard !requests.isEmpty else { return nil }
        switch requests.removeFirst() {
        case .watch(let id, let serial):
            let log = logs[id, default: Log()]
            watches[id] = Watch(serial: serial, epoch: log.epoch, delivered: log.top)
            return .positioned(id, log.position, watch: serial)
        case .unwatch(let id):
            watches[id] = nil
        case .read(let read):
            reads.append(read)
        }
        return nil
    }

    func isBehind(_ id: StreamID) -> Bool {
        guard let watch = watches[id], let log = logs[id] else { return false }
        return watch.epoch != log.epoch || watch.delivered != log.top
    }

    /// Delivers the next event of a watched stream, or a reset when it cannot.
    func deliver(_ id: StreamID) -> LoopWorld.Message? {
        guard let watch = watches[id], let log = logs[id], isBehind(id) else { return nil }
        if watch.epoch == log.epoch, watch.delivered >= log.floor, watch.delivered < log.top {
            watches[id]?.delivered += 1
            return .event(event(id, log, watch.delivered + 1))
        }
        watches[id]?.epoch = log.epoch
        watches[id]?.delivered = log.top
        return .feedReset(id, log.position)
    }

    func read(_ index: Int, failing: StreamReadFailure?) -> LoopWorld.Message? {
        guard reads.indices.contains(index) else { return nil }
        let read = reads.remove(at: index)
        readCount += 1
        let log = logs[read.stream, default: Log()]
        if let failing { return .unreadable(read, failing) }
        if read.epoch.string != log.epoch { return .unreadable(read, .otherEpoch) }
        if read.after >= read.upTo {
            confirmationCount += 1
            return log.top < read.after ? .unreadable(read, .ahead) : .page(read, [])
        }
        if read.after < log.floor { return .unreadable(read, .expired) }
        let end = min(read.upTo, read.after + Int64(pageEvents), log.top)
        return .page(read, ((read.after + 1)...end).map { event(read.stream, log, $0) })
    }
}
