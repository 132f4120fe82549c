import CCurl
import CLinux
import Clock
import Glibc
import Pusher
import Reactor

/// One request in flight, as seen by libcurl's callbacks. Confined to the courier's thread; the resolver's thread does not
/// touch it.
final class Transfer: CurlTransfer {
    let request: WebhookRequest
    let startedAt: Instant
    private let easy: UnsafeMutableRawPointer
    private let headers: UnsafeMutablePointer<curl_slist>?
    private let allowsPrivate: Bool
    private let responseBytesMax: Int
    private let makeSocket: @Sendable (Int32, Int32, Int32) -> Int32
    private var received = 0
    private var refusedAddress = false
    private var lacksDescriptors = false

    /// Prepares a request; nil if memory runs out or libcurl does not accept the URL.
    init?(_ request: WebhookRequest, _ configuration: CourierConfiguration, at now: Instant) {
        guard let easy = curl_easy_init() else { return nil }
        self.request = request
        self.easy = easy
        startedAt = now
        allowsPrivate = configuration.allowsPrivate
        responseBytesMax = configuration.limits.responseBytesMax
        makeSocket = configuration.makeSocket
        headers = Self.headers(of: request)
        guard set(configuration) == CURLE_OK else { return nil }
    }

    deinit {
        curl_easy_cleanup(easy)
        curl_slist_free_all(headers)
    }

    var handle: UnsafeMutableRawPointer { easy }

    /// The result. A status counts even if the response ended badly: the receiver has the event.
    func result(_ code: CURLcode) -> DeliveryResult {
        let status = carillon_curl_status(easy)
        switch status {
        case 200..<300: return .delivered
        case 300..<400: return .failed(.status3xx)
        case 400..<500: return .failed(.status4xx)
        case 500..<600: return .failed(.status5xx)
        default: break
        }
        if lacksDescriptors { return .failed(.descriptors) }
        if refusedAddress, code == CURLE_COULDNT_CONNECT { return .failed(.address) }
        return .failed(DeliveryFailure(code))
    }

    /// Whether it timed out during name resolution, which then continues without it.
    func wasResolving(_ code: CURLcode) -> Bool {
        code == CURLE_OPERATION_TIMEDOUT && carillon_curl_has_resolved(easy) == 0
    }

    private static func headers(of request: WebhookRequest) -> UnsafeMutablePointer<curl_slist>? {
        var fields = [
            "Content-Type: application/json", "X-Pusher-Key: \(request.endpoint.credentials.key)",
            "X-Pusher-Signature: \(request.signature)",
            // Avoids a round trip for 100 Continue.
            "Expect:",
        ]
        for header in request.endpoint.configuration.headers {
            // libcurl's form of an empty field.
            fields.append(header.value.isEmpty ? "\(header.name);" : "\(header.name): \(header.value)")
        }
        var list: UnsafeMutablePointer<curl_slist>?
        for field in fields {
            // Nil if memory runs out. The list is unchanged and the request lacks a field; the endpoint refuses it, and it
            // is retried.
            if let longer = curl_slist_append(list, field) { list = longer }
        }
        return list
    }

    private func set(_ configuration: CourierConfiguration) -> CURLcode {
        var settings = carillon_curl_request()
        settings.headers = headers
        settings.http_version = CURL_HTTP_VERSION_1_1
        settings.connect_milliseconds = configuration.limits.connectTimeout.wholeMilliseconds
        settings.total_milliseconds = configuration.limits.requestTimeout.wholeMilliseconds
        settings.ca_seconds = Int(clamping: configuration.limits.certificatesKept.components.seconds)
        // Unretained: the caller keeps the transfer until the multi handle has released the easy handle.
        settings.context = Unmanaged.passUnretained(self).toOpaque()
        settings.open_socket = { context, _, address in
            guard let context, let address else { return CURL_SOCKET_BAD }
            return Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue().openSocket(address)
        }
        settings.receive_head = { _, size, count, context in Transfer.receive(size, count, context) }
        settings.receive_body = { _, size, count, context in Transfer.receive(size, count, context) }
        return request.endpoint.configuration.url.withCString { url in
            configuration.userAgent.withCString { agent in
                withOptionalCString(configuration.caFile) { file in
                    request.body.withUnsafeBytes { body in
                        (settings.url, settings.user_agent, settings.ca_file) = (url, agent, file)
                        (settings.body, settings.body_count) = (body.baseAddress, body.count)
                        let code = carillon_curl_prepare(easy, &settings)
                        return code == CURLE_OK ? carillon_curl_aim(easy, &settings) : code
                    }
                }
            }
        }
    }

    /// A socket for an address that the URL contains or its name resolved to; none if the address is not allowed.
    private func openSocket(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        if !allowsPrivate {
            var storage = sockaddr_storage()
            let count = min(Int(address.pointee.addrlen), MemoryLayout<sockaddr_storage>.size)
            memcpy(&storage, carillon_curl_address(address), count)
            guard let peer = PeerAddress(inet: storage), PublicAddresses.contains(peer) else {
                refusedAddress = true
                return CURL_SOCKET_BAD
            }
        }
        let descriptor = makeSocket(
            address.pointee.family, address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue), address.pointee.protocol)
        if descriptor < 0, errno == EMFILE || errno == ENFILE { lacksDescriptors = true }
        return descriptor
    }

    /// Counts the received bytes and keeps none.
    private static func receive(_ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?) -> Int {
        guard let context else { return 0 }
        let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        let (bytes, overflow) = size.multipliedReportingOverflow(by: count)
        guard !overflow, bytes <= transfer.responseBytesMax - transfer.received else {
            return Int(CURL_WRITEFUNC_ERROR)
        }
        transfer.received += bytes
        return bytes
    }
}

func withOptionalCString<Result>(_ text: String?, _ body: (UnsafePointer<CChar>?) -> Result) -> Result {
    guard let text else { return body(nil) }
    return text.withCString { body($0) }
}
