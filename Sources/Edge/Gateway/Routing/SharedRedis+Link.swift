import HubEngine
import Metrics
import Reactor
import Shared

extension SharedRedis: SharedLink {
    /// Counts it (`SharedLink`).
    package func wasMissed() { metrics.unavailable.add() }

    /// Opens the way of one loop (`SharedLink`).
    package func open(
        loop: Int, of loops: Int, on eventLoop: EventLoop,
        _ receive: @escaping @Sendable (SharedArrival) -> Void, _ take: @escaping (SharedArrival) -> Void
    ) throws(ReactorError) -> (SharedRequest) -> Void {
        let link = try link(loop: loop, of: loops, on: eventLoop, receive, take)
        return { link.send($0) }
    }
}
