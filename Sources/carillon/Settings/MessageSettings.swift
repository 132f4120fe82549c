/// What clients may send.
enum MessageSettings {
    static let messageBytesMax = Setting.bytes(
        "limits.messageBytes", "64KiB", 1024...(16 << 20), "Largest message a client may send.")

    static let messageFragmentsMax = Setting.count(
        "limits.messageFragments", "1024", 1...1_000_000, "Fragments of one message.")

    static let messagesPerSecond = Setting.count(
        "limits.messagesPerSecond", "200", 0...10_000,
        """
        Messages that one connection may send each second on the long run before it is closed, one more counted for each \
        4 KiB of one; 0 is no bound.
        """)

    static let messagesBurst = Setting.count(
        "limits.messagesBurst", "2000", 1...1_000_000,
        "Messages that one connection may send at once after a silence.")

    static let controlFramesPerSecond = Setting.count(
        "limits.controlFramesPerSecond", "10", 0...10_000,
        "Pings and pongs that one connection may send each second; 0 is no bound.")

    static let controlFramesBurst = Setting.count(
        "limits.controlFramesBurst", "100", 1...1_000_000,
        "Pings and pongs that one connection may send at once after a silence.")

    static let headBytesMax = Setting.bytes(
        "limits.headBytes", "8KiB", 1024...(1 << 20), "Largest HTTP request head.")

    static let bodyBytesMax = Setting.bytes(
        "limits.bodyBytes", "640KiB", (16 << 10)...(16 << 20),
        "Largest HTTP request body: an app's largest batch has to fit, three times its size where its text is escaped.")

    static let requestBytesPerSecondMin = Setting.count(
        "limits.requestBytesPerSecond", "500", 0...1_000_000,
        "Bytes a second that a begun request has to bring, once half of handshakeTimeout is over; 0 is no bound.")

    static let rows = [
        messageBytesMax.row, messageFragmentsMax.row, messagesPerSecond.row, messagesBurst.row,
        controlFramesPerSecond.row, controlFramesBurst.row, headBytesMax.row, bodyBytesMax.row,
        requestBytesPerSecondMin.row,
    ]
}

/// Which messages are compressed for clients that offer it, and how.
enum MessageCompression {
    static let isOn = Setting.flag(
        "websocket.compression", "true",
        "Compress messages for clients that offer permessage-deflate, each by itself.")

    static let threshold = Setting.bytes(
        "websocket.compressionThreshold", "512", 0...(16 << 20), "Smallest message that is compressed.")

    static let level = Setting(
        "websocket.compressionLevel", takes: "level", fallback: "2", "zlib's level: 1 is quick, 9 makes small.",
        parse: SettingValues.count(1...9))

    static let rows = [isOn.row, threshold.row, level.row]
}
