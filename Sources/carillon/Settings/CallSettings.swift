import API

/// What is the same for all apps in Pusher's HTTP API.
enum CallSettings {
    static let refuseReplays = Setting.flag(
        "api.refuseReplays", "false",
        "Refuse a call of the HTTP API whose signature has come before, and those signed before the hub was started. "
            + "Pusher's libraries sign two equal calls of one second alike.")

    static let idempotencyKeysMax = Setting.count(
        "api.idempotencyKeys", "65536", 0...10_000_000,
        "Idempotency-Keys of publishes whose answers are kept, the latest; 0: the field means nothing.")

    static let idempotencyTime = Setting.time(
        "api.idempotencyTime", "1h", .seconds(1) ... .seconds(604_800), "How long they are kept.")

    static let rows = [refuseReplays.row, idempotencyKeysMax.row, idempotencyTime.row]
}

extension PusherRoutes.Settings {
    init(_ effective: EffectiveSettings) throws(Failure) {
        self.init()
        refusesReplays = try effective.required(CallSettings.refuseReplays)
        idempotencyKeysMax = try effective.required(CallSettings.idempotencyKeysMax)
        idempotencyTime = try effective.required(CallSettings.idempotencyTime)
    }
}
