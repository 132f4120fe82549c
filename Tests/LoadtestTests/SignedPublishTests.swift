import Bytes
import Foundation
import Pusher
import Testing

@testable import loadtest

@Suite struct SignedPublishTests {
    /// The example of Pusher's "HTTP API reference".
    @Test func signsAsDocumented() {
        let publish = SignedPublish(
            app: "3", AppCredentials(key: "278d425bdf160c739803", secret: "7ad3773142a6692b25b8"), frameBytes: 0,
            channel: { "\($0)" })
        let body = #"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#
        var request = ByteWriter()
        publish.append(Array(body.utf8), at: 1_353_088_179, host: "hub", to: &request)
        #expect(
            request.string == """
                POST /apps/3/events?auth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0&\
                body_md5=ec365a775a4cd0599faeb73354201b6f&\
                auth_signature=da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c HTTP/1.1\r\n\
                Host: hub\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)
                """)
    }

    @Test func fillsTheFrame() {
        let publish = SignedPublish(
            app: "1", AppCredentials(key: "k", secret: "s"), frameBytes: 100, channel: { "channel-\($0)" })
        var request = ByteWriter()
        publish.append(7, host: "hub", to: &request)
        let body = request.string.components(separatedBy: "\r\n\r\n")[1]
        let data = body.split(separator: "\"").last { $0.allSatisfy { $0 == "x" } } ?? ""
        #expect(#"{"event":"e","channel":"channel-7","data":"\#(data)"}"#.utf8.count == 100)
    }
}
