import Clock
import Glibc

/// One request to a provider.
struct PushRequest: Equatable, Sendable {
    var url: String
    /// Header fields, each `Name: value`.
    var fields: [String]
    var body: [UInt8]
    /// Whether the provider speaks HTTP/2 alone, also without TLS.
    var isHTTP2Only = false
    /// Whether it waits for a connection that it may share, as long as it is not known whether the host lets requests share
    /// one. Where the host does not, requests would wait for each other: libcurl wakes one that waits for each that ends.
    var sharesConnection = true
}

/// What a provider answered.
struct PushAnswer: Equatable, Sendable {
    var status: Int
    /// The seconds of `Retry-After`.
    var retryAfter: Int?
    var body: [UInt8] = []
}

/// How a request ended.
enum PushEnd: Equatable, Sendable {
    case answered(PushAnswer)
    case failed(DeliveryFailure)
}

/// What an answer means for the push. A reason is one of a list of ours, never a provider's own words: those may hold a
/// token.
enum PushVerdict: Equatable, Sendable {
    case sent
    /// It may be accepted later, not before that many seconds where the provider says so.
    case retry(String, after: Int? = nil)
    /// Never accepted, whatever the device's token.
    case dead(String)
    /// The token is of no use if it was registered before that time, in milliseconds since 1970; nil: before it was read.
    case drop(String, before: Int64? = nil)
    /// The credential has expired.
    case renew
    /// The provider refuses the hub itself: its credential, or its address. The operator has to act.
    case refused(String)
}

/// `Retry-After` (RFC 9110 §10.2.3).
enum RetryAfter {
    /// The longest that is believed.
    static let secondsMax = 3_600

    /// Seconds, from a number or a date; nil if it is neither.
    static func seconds(_ text: String, at now: UnixTime) -> Int? {
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            return min(Int(text) ?? secondsMax, secondsMax)
        }
        guard let time = time(ofDate: text) else { return nil }
        return min(now.duration(until: time).secondsRoundedUp, secondsMax)
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// The preferred form alone (IMF-fixdate), as `Sun, 06 Nov 1994 08:49:37 GMT`: no provider sends an obsolete one.
    private static func time(ofDate text: String) -> UnixTime? {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 6, words[0].hasSuffix(","), words[5] == "GMT",
            let month = months.firstIndex(of: String(words[2])), let day = Int32(words[1]), (1...31).contains(day),
            let year = Int32(words[3]), (1970...9999).contains(year)
        else { return nil }
        let clock = words[4].split(separator: ":", omittingEmptySubsequences: false).map { Int32($0) ?? -1 }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (year - 1900, Int32(month), day)
        (parts.tm_hour, parts.tm_min, parts.tm_sec) = (clock[0], clock[1], clock[2])
        return UnixTime(seconds: Int64(timegm(&parts)))
    }
}

/// When a push is tried again.
enum PushBackoff {
    /// The longest pause that the hub chooses itself. A reminder is of use for minutes.
    static let secondsMax = 60

    /// Seconds until the next attempt: what the provider asks for, or a doubled pause; and some more at random, so that
    /// pushes that failed together do not come back together.
    static func seconds(
        attempt: Int, after wanted: Int?, random: inout any RandomNumberGenerator
    ) -> Int {
        if let wanted { return max(1, wanted) + Int.random(in: 0...max(0, min(wanted, 600) / 10), using: &random) }
        let pause = min(1 << min(max(attempt, 1) - 1, 16), secondsMax)
        return Int.random(in: max(1, pause / 2)...pause, using: &random)
    }
}
