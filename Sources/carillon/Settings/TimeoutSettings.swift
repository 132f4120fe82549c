/// How long the hub waits for clients.
enum TimeoutSettings {
    static let activity = Setting.time(
        "activityTimeout", "120s", .seconds(1) ... .seconds(3600),
        "Silence of a client after which it is probed; clients are told it.")

    static let pong = Setting.time(
        "pongTimeout", "30s", .seconds(1) ... .seconds(600),
        "Time a probed client has to show life before it is closed.")

    static let handshake = Setting.time(
        "handshakeTimeout", "10s", .milliseconds(100) ... .seconds(300),
        "Time a new connection has to send its whole request.")

    static let message = Setting.time(
        "messageTimeout", "30s", .seconds(1) ... .seconds(600),
        "Time from the first byte of a WebSocket message to its last before its sender is closed.")

    static let unacked = Setting.time(
        "unackedTimeout", "60s", .seconds(1) ... .seconds(3600),
        "Time a client may leave what it was sent unacknowledged, or take nothing, before its connection is given up.")

    static let rows = [activity.row, pong.row, handshake.row, message.row, unacked.row]
}
