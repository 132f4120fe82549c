import HubEngine

/// How far this hub is with what backends are to be told, by bucket. Only the first loop's heart tells.
///
/// Redis keeps each event until the hub that tells it says that it was told, and all before it. So another hub that goes on
/// where this one has died tells all that came behind: the last word is the right one (`aReplayHasNoHoles`).
/// Worst interleavings: Redis begins anew, and counts from one again. What was told of the old count says nothing of the new
/// one, so the hub names the epoch that it has read (`whatWasToldOfAnOldCountIsForgotten`). An endpoint is slow: the hub
/// gets more meanwhile, and says each second that it is still there (`aSlowEndpointIsNoDeadHub`). The connection breaks:
/// what is under way stays so, and is not asked for again (`aBrokenConnectionRepeatsNoWebhook`). An event is of an app that
/// this hub does not serve, in the midst of others: it tells those before it, and leaves the rest, once they are told, to a
/// hub that serves it. Which event that is, it says as long as the event comes first: only if all hubs say the same, Redis
/// drops it, with those of the same app behind it (`UnservedAppTests`).
struct Tellings {
    private struct Page {
        let number: Int
        let last: [UInt8]
        var isTold = false
    }

    private struct Telling {
        var epoch: [UInt8] = []
        var last: [UInt8] = []
        /// In order; the first one is not told.
        var pages: [Page] = []
        /// The last of the pages before them, until Redis knows.
        var told: [UInt8] = []
        /// The event behind the pages, if it is of an app that this hub does not serve; else empty.
        var foreign: [UInt8] = []
    }

    private var tellings: [Telling]
    private var lastNumber = 0

    init(buckets: Int) { tellings = Array(repeating: Telling(), count: buckets) }

    /// The last event that the hub has got of the bucket; empty: it begins.
    func last(_ bucket: Int) -> [UInt8] { tellings[bucket].last }

    /// The epoch of the bucket in which it has got that.
    func epoch(_ bucket: Int) -> [UInt8] { tellings[bucket].epoch }

    /// Up to this event all were told, which Redis does not know yet; empty: it knows all.
    func told(_ bucket: Int) -> [UInt8] { tellings[bucket].told }

    /// Whether Redis must hear of the hub: that it is still there, or what it has told.
    func isUnderWay(_ bucket: Int) -> Bool { !tellings[bucket].pages.isEmpty || !tellings[bucket].told.isEmpty }

    /// The event that this hub leaves to others, if all is told before it; else empty.
    func foreign(_ bucket: Int) -> [UInt8] { tellings[bucket].pages.isEmpty ? tellings[bucket].foreign : [] }

    /// This hub serves other apps than before. Returns the buckets where it may tell on.
    mutating func servesOthers() -> [Int] {
        let left = tellings.indices.filter { !tellings[$0].foreign.isEmpty }
        for bucket in left { tellings[bucket].foreign = [] }
        return left
    }

    /// Redis knows that all up to this event were told.
    mutating func isKnown(_ told: [UInt8], _ bucket: Int) {
        if tellings[bucket].told == told { tellings[bucket].told = [] }
    }

    /// Begins anew.
    mutating func begin(_ bucket: Int, in epoch: [UInt8]) { tellings[bucket] = Telling(epoch: epoch) }

    /// The hub has got a page that ends with this event. The number of the page.
    mutating func gets(upTo last: [UInt8], _ bucket: Int) -> Int {
        lastNumber += 1
        tellings[bucket].last = last
        tellings[bucket].foreign = []
        tellings[bucket].pages.append(Page(number: lastNumber, last: last))
        return lastNumber
    }

    /// What follows is of an app that this hub does not serve: the event of that id.
    mutating func comesToForeign(_ id: [UInt8], _ bucket: Int) { tellings[bucket].foreign = id }

    /// Backends have been told all of the page, or it was dropped. Returns whether Redis is to know; false also for a page
    /// of an earlier beginning.
    mutating func isTold(_ number: Int, _ bucket: Int) -> Bool {
        guard let index = tellings[bucket].pages.firstIndex(where: { $0.number == number }) else { return false }
        tellings[bucket].pages[index].isTold = true
        while let first = tellings[bucket].pages.first, first.isTold {
            tellings[bucket].told = first.last
            tellings[bucket].pages.removeFirst()
        }
        return index == 0
    }
}
