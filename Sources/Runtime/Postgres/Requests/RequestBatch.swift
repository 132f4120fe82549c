import Bytes
import Clock

/// Requests of one user that one statement carries out, in their order and in one transaction. Where it fails, all are
/// undone, and each is sent by itself: so a batch ends with every request as single ones would, only sooner.
///
/// The worst interleavings, each with its test (`BatchTests`, `RequestBatchTests`):
/// - The connection ends after the commit, before the answer: each part is sent by itself, and gets its stored answer.
/// - One part fails, or the commit does: all are undone. The parts before the bad one are applied singly, those behind it
///   too, and the bad one gets its own answer.
/// - A part passes its deadline in flight: it alone is told so. Its user's queue waits for the end of the batch.
/// - Others come while batches fill the connections: one connection stays free of them, where there are several. The more
///   users wait, the smaller a batch is, so that all of their turns together take no longer than one batch.
open class RequestBatch: Request {
    /// The requests, in their order; two at least.
    package final let parts: [Request]

    /// - Parameters:
    ///   - parts: of one user and kind; two at least.
    ///   - terms: with their user and kind.
    public init(of parts: [Request], _ terms: Terms) {
        self.parts = parts
        super.init(terms)
    }

    open override func ended(_ end: RequestFailure) {
        for part in parts { part.end(end) }
    }

    override func expire(at now: Instant) {
        for part in parts where !part.isOver { part.expire(at: now) }
    }
}

/// How waiting requests of a user become a batch.
package struct Batching: Sendable {
    let countMax: Int
    let bytesMax: Int
    let join: @Sendable ([Request]) -> RequestBatch

    /// - Parameters:
    ///   - countMax: parts of one batch, where no other user waits.
    ///   - bytesMax: bytes of the parts' parameters.
    ///   - join: makes the batch.
    package init(countMax: Int, bytesMax: Int, join: @escaping @Sendable ([Request]) -> RequestBatch) {
        self.countMax = countMax
        self.bytesMax = bytesMax
        self.join = join
    }
}

extension FairQueue where Key == TextKey, Element == Request {
    /// The request whose turn has come, with those of its user that wait behind it now and may share its transaction.
    mutating func joined(_ request: Request, _ batching: Batching) -> Request {
        guard let line = request.line, request.mayJoin else { return request }
        let countMax = batching.countMax / (1 + turnCount)
        var parts = [request]
        var bytes = request.parameters.byteCount
        while parts.count < countMax,
            let next = nextBehind(
                line,
                where: {
                    $0.mayJoin && bytes + $0.parameters.byteCount <= batching.bytesMax && $0.willBeSent()
                })
        {
            bytes += next.parameters.byteCount
            parts.append(next)
        }
        guard parts.count > 1 else { return request }
        let batch = batching.join(parts)
        batch.line = line
        return batch
    }

    /// The parts that are not done wait again, in front of their user's other requests. If none is done, each goes alone,
    /// and the first of them before all others. A pool that stops ends them instead.
    mutating func takeApart(_ batch: RequestBatch, after done: Int, isStopping: Bool) {
        guard let line = exchange(&batch.line, with: nil) else { return }
        let rest = batch.parts[done...].filter { !$0.isOver && !isStopping }
        for (index, part) in rest.enumerated().reversed() {
            part.wasTried = done == 0
            if done == 0, index == 0 {
                again(part, line, cost: part.parameters.byteCount)
            } else {
                putInFront(part, line, cost: part.parameters.byteCount)
            }
        }
        if done > 0 || rest.isEmpty { self.done(line) }
        if isStopping { for part in batch.parts[done...] { part.end(.stopping) } }
    }
}

extension Request {
    fileprivate var mayJoin: Bool { isJoinable && !wasTried && !mayBeDone }
}
