import HTTP
import Sync

extension RouteTable {
    /// The last segment of a path that names a device.
    private static let device = RouteParameter("deviceId", .text(1...200))

    /// The devices that pushes go to, and pushes by hand.
    static let devices: [ProductRoute] = [
        .action(.put, "/users/{userId}/devices/{deviceId}", .whole(type: "registerDevice"), [device])
            .described("Registers a device for pushes, with its token of now", "PlainAnswer", body: "DeviceToken"),
        .action(.delete, "/users/{userId}/devices/{deviceId}", .whole(type: "removeDevice"), [device])
            .described("Ends the pushes to a device", "PlainAnswer"),
        // Seed 001 §4.
        .action(.post, "/webhooks/notify", .whole(type: "notify"), by: .app)
            .described(
                "Sends a push by hand to the devices of the user named in the body", "PlainAnswer", body: "Notice"),
    ]
}
