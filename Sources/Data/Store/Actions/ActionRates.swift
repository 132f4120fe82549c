import Bytes
import Clock
import Postgres
import Sync

/// The rate limits of users and of their devices.
struct ActionRates {
    private var users: TokenBuckets
    private var devices: TokenBuckets

    init(_ configuration: StoreConfiguration) {
        users = TokenBuckets(configuration.userRate)
        devices = TokenBuckets(configuration.deviceRate)
    }

    /// How long the request must wait because its user or device sends too fast; nil if it need not.
    func wait(_ request: ActionRequest, now: Instant) -> Duration? {
        let wait = users.wait(TextKey(request.user), now: now)
        let deviceWait = request.envelope.deviceID.flatMap { devices.wait(TextKey(request.user, $0), now: now) }
        return [wait, deviceWait].compactMap { $0 }.max()
    }

    mutating func take(_ action: Action, now: Instant) {
        users.take(action.user, now: now)
        if let device = action.device { devices.take(device, now: now) }
    }

    mutating func giveBack(_ action: Action, now: Instant) {
        users.giveBack(action.user, now: now)
        if let device = action.device { devices.giveBack(device, now: now) }
    }
}
