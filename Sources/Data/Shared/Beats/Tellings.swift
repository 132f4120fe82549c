import HubEngine

/// How far this hub is with what backends are to be told, by bucket. The first loop's link has one.
///
/// Redis keeps an event until the hub that tells it says that it was told, and has another hub tell it if this one dies.
/// Worst interleavings: Redis begins anew, and counts from one again. What was told of the old count says nothing of the new
/// one: each beginning has a number, and what is told of an older one is forgotten (`whatWasToldOfAnOldCountIsForgotten`).
/// An endpoint is slow: the hub gets more meanwhile, and says each second that it is still there (`aSlowEndpoint…`).
struct Tellings {
    /// A page of events, as Redis names them.
    typealias Page = (first: [UInt8], last: [UInt8])

    private struct Telling {
        var last: [UInt8] = []
        /// Pages under way, and those that were told, which Redis does not know yet.
        var underWay = 0
        var told: [Page] = []
        var beginning = 0
    }

    private var tellings: [Telling]
    private var beginnings = 0

    init(buckets: Int) { tellings = Array(repeating: Telling(), count: buckets) }

    /// The last event that the hub has got of the bucket; empty: it begins.
    func last(_ bucket: Int) -> [UInt8] { tellings[bucket].last }

    /// Pages that were told, of which Redis is told now.
    func told(_ bucket: Int) -> [Page] { tellings[bucket].told }

    /// Whether it must be said that the hub is still there.
    func isUnderWay(_ bucket: Int) -> Bool { tellings[bucket].underWay > 0 }

    /// Redis knows of so many told pages.
    mutating func isKnown(_ count: Int, _ bucket: Int) {
        tellings[bucket].told.removeFirst(min(count, tellings[bucket].told.count))
    }

    /// Begins anew.
    mutating func begin(_ bucket: Int) {
        beginnings += 1
        tellings[bucket] = Telling(beginning: beginnings)
    }

    mutating func beginAll() { for bucket in tellings.indices { begin(bucket) } }

    /// The hub has got a page. The number of its beginning.
    mutating func gets(_ page: Page, _ bucket: Int) -> Int {
        tellings[bucket].last = page.last
        tellings[bucket].underWay += 1
        return tellings[bucket].beginning
    }

    /// Backends have been told all of the page, or it was dropped. Returns whether that counts.
    mutating func isTold(_ page: Page, _ bucket: Int, of beginning: Int) -> Bool {
        guard tellings[bucket].beginning == beginning else { return false }
        tellings[bucket].underWay -= 1
        tellings[bucket].told.append(page)
        return true
    }
}
