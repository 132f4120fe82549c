import Gateway
import Testing

@Suite struct RetryAfterTests {
    @Test(arguments: [
        (Duration.seconds(-5), "1"), (.zero, "1"), (.nanoseconds(1), "1"), (.seconds(1), "1"),
        (.nanoseconds(1_000_000_001), "2"), (.milliseconds(1_999), "2"), (.seconds(2), "2"), (.seconds(60), "60"),
    ])
    func aWaitIsRoundedUpToWholeSeconds(_ wait: Duration, _ seconds: String) {
        let response = HTTPResponse(.serviceUnavailable, fields: [("Vary", "Origin")]).retrying(after: wait)
        #expect(response.fields.map { "\($0.name): \($0.value)" } == ["Vary: Origin", "Retry-After: \(seconds)"])
        #expect(response.status == .serviceUnavailable)
    }
}
