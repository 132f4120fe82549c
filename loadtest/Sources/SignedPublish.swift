import Bytes
import Digests
import Glibc
import Pusher

/// Publishes through Pusher's HTTP API, signed like any backend's: `POST /apps/ID/events`.
struct SignedPublish {
    private let path: String
    private let credentials: AppCredentials
    private let channel: (Int) -> String
    private let frameBytes: Int

    /// Publishes of the app `id`.
    ///
    /// - Parameters:
    ///   - channel: a channel's name by its number.
    ///   - frameBytes: the event's size at its receivers, without the frame header; the data fills the rest.
    init(app id: String, _ credentials: AppCredentials, frameBytes: Int, channel: @escaping (Int) -> String) {
        path = "/apps/\(id)/events"
        self.credentials = credentials
        self.channel = channel
        self.frameBytes = frameBytes
    }

    /// Appends a request for the channel `number`, to `host`.
    func append(_ number: Int, host: String, to writer: inout ByteWriter) {
        let name = channel(number)
        let filling = max(0, frameBytes - Self.frame.utf8.count - name.utf8.count)
        let data = String(repeating: "x", count: filling)
        let body = Array(#"{"name":"e","channels":["\#(name)"],"data":"\#(data)"}"#.utf8)
        append(body, at: time(nil), host: host, to: &writer)
    }

    /// Appends a request with that body, signed at `seconds` since 1970.
    func append(_ body: [UInt8], at seconds: Int, host: String, to writer: inout ByteWriter) {
        let digest = body.withUnsafeBytes { MD5($0).hex }
        let query = "auth_key=\(credentials.key)&auth_timestamp=\(seconds)&auth_version=1.0&body_md5=\(digest)"
        let signature = credentials.sign(call: "POST", path: path, parameters: query)
        writer.append(utf8: "POST \(path)?\(query)&auth_signature=\(signature) HTTP/1.1\r\nHost: \(host)")
        writer.append("\r\nContent-Type: application/json\r\nContent-Length: ")
        writer.append(decimal: body.count)
        writer.append("\r\n\r\n")
        writer.append(body)
    }

    /// An event without its channel name and data.
    private static let frame = #"{"event":"e","channel":"","data":""}"#
}
