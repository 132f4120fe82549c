/// The schemas of devices and pushes. In bodies, null counts as missing.
enum DeviceSchemas {
    static let all: [(name: StaticString, schema: StaticString)] = [
        ("DeviceToken", deviceToken), ("Notice", notice),
    ]

    private static let deviceToken: StaticString = """
        {"type":"object","required":["platform"],"properties":{"platform":{"enum":["apns","fcm","webhook"]},\
        "token":{"type":["string","null"],"maxLength":4096},"environment":{"enum":["production","sandbox",null]},\
        "topic":{"type":["string","null"],"maxLength":255},"permission":{"enum":["granted","denied",null]}}}
        """
    private static let notice: StaticString = """
        {"type":"object","required":["userId"],"properties":{"userId":{"type":"string"},\
        "occurrenceId":{"type":["string","null"]},"title":{"type":["string","null"],"maxLength":200},\
        "body":{"type":["string","null"],"maxLength":1000},\
        "expiresInSeconds":{"type":["number","null"],"minimum":1,"maximum":2419200},"idempotencyKey":{"type":"string"}}}
        """
}
