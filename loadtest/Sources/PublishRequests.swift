import Bytes
import Digests
import Glibc
import Pusher

/// A backend's requests: a publish, signed now, and one of equal size for another path.
struct PublishRequests {
    /// `POST /apps/{id}/events`.
    let publish: SharedBytes
    /// A request of equal size for a path where the server does nothing.
    let bare: SharedBytes

    /// - Parameter dataBytes: of the event's data.
    init(_ credentials: AppCredentials, app: String, channel: String, dataBytes: Int) {
        let body = #"{"name":"measured","channel":"\#(channel)","data":"\#(String(repeating: "x", count: dataBytes))"}"#
        let digest = Array(body.utf8).withUnsafeBytes { MD5($0).hex }
        let parameters =
            "auth_key=\(credentials.key)&auth_timestamp=\(time(nil))&auth_version=1.0&body_md5=\(digest)"
        let path = "/apps/\(app)/events"
        let code = credentials.sign(call: "POST", path: path, parameters: parameters)
        func request(_ path: String) -> SharedBytes {
            .copy(
                "POST \(path)?\(parameters)&auth_signature=\(code) HTTP/1.1\r\nHost: hub\r\n"
                    + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
        publish = request(path)
        bare = request(Self.barePath)
    }

    /// loadtest/Core answers 200 here and does nothing.
    static let barePath = "/bare"
}
