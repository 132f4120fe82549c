/// What may be held for clients, and of them.
enum QueueSettings {
    static let sendQueueBytesMax = Setting.bytes(
        "limits.sendQueueBytes", "8MiB", (16 << 10)...(256 << 20),
        "Bytes that may wait for a slow client before it is closed.")

    static let sendQueuesBytesMax = Setting.bytes(
        "limits.sendQueuesBytes", "256MiB", (1 << 20)...(1 << 40),
        "Bytes that may wait for all clients together before those for whom most do are closed; divided among the loops."
    )

    static let unfinishedBytesMax = Setting.bytes(
        "limits.unfinishedBytes", "64MiB", (1 << 20)...(1 << 40),
        "Bytes of messages and requests that have begun to come, of all clients; divided among the loops.")

    static let pullQueueBytesMax = Setting.bytes(
        "limits.pullQueueBytes", "1MiB", (16 << 10)...(64 << 20),
        "Bytes that may wait for a slow client before it gets user channels by pages; half of sendQueueBytes at most.")

    static let stalledTimeout = Setting.time(
        "limits.stalledTimeout", "60s", .seconds(1) ... .seconds(3600),
        "Time in which a client that gets pages has to acknowledge a byte before it is closed.")

    static let rows = [
        sendQueueBytesMax.row, sendQueuesBytesMax.row, unfinishedBytesMax.row, pullQueueBytesMax.row,
        stalledTimeout.row,
    ]
}
