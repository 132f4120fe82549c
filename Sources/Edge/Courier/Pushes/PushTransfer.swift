import CCurl
import CLinux
import Clock
import Glibc
import Outbox

/// One request to a provider in flight, as seen by libcurl's callbacks; and then the next one: to make a handle costs as
/// much as to send a push. Confined to the pushes' thread.
final class PushTransfer: CurlTransfer {
    /// What a request is for.
    enum Purpose {
        case push(PushWork)
        case credential(PushPlatform)
    }

    let handle: UnsafeMutableRawPointer
    private(set) var purpose = Purpose.credential(.apns)
    private(set) var startedAt = Instant.max
    private var headers: UnsafeMutablePointer<curl_slist>?
    private var body: [UInt8] = []
    private var retryAfter: String?
    private var received = 0
    private var lacksDescriptors = false

    /// Without a request yet; nil if memory runs out.
    init?(_ configuration: PushConfiguration) {
        guard let easy = curl_easy_init() else { return nil }
        handle = easy
        guard prepare(configuration) == CURLE_OK else { return nil }
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(headers)
    }

    /// Takes its next request, while none is in flight; false if memory runs out or libcurl does not accept the URL.
    func begin(_ request: PushRequest, _ purpose: Purpose, at now: Instant) -> Bool {
        self.purpose = purpose
        startedAt = now
        (retryAfter, received, lacksDescriptors) = (nil, 0, false)
        body.removeAll(keepingCapacity: true)
        var list: UnsafeMutablePointer<curl_slist>?
        func append(_ field: String) {
            // Nil if memory runs out: the provider refuses what is left, and it is tried again.
            if let longer = curl_slist_append(list, field) { list = longer }
        }
        for field in request.fields { append(field) }
        // Avoids a round trip for 100 Continue.
        append("Expect:")
        // libcurl reads the old list until it has the new one.
        let old = headers
        headers = list
        defer { curl_slist_free_all(old) }
        return aim(request) == CURLE_OK
    }

    /// How it ended. A status counts only with its whole answer: the reason is in the body.
    func end(_ code: CURLcode, time: UnixTime) -> PushEnd {
        let status = carillon_curl_status(handle)
        // An acceptance counts whatever came of the rest.
        if code == CURLE_OK || status == 200, status > 0 {
            return .answered(
                PushAnswer(
                    status: status, retryAfter: retryAfter.flatMap { RetryAfter.seconds($0, at: time) }, body: body))
        }
        return .failed(lacksDescriptors ? .descriptors : DeliveryFailure(code))
    }

    private func prepare(_ configuration: PushConfiguration) -> CURLcode {
        var settings = carillon_curl_request()
        settings.connect_milliseconds = PushLimits.connectTimeout.wholeMilliseconds
        settings.total_milliseconds = PushLimits.requestTimeout.wholeMilliseconds
        settings.ca_seconds = Int(clamping: CourierLimits().certificatesKept.components.seconds)
        // Unretained: the caller keeps the transfer until the multi handle has released the easy handle.
        settings.context = Unmanaged.passUnretained(self).toOpaque()
        settings.open_socket = { context, _, address in
            guard let context, let address else { return CURL_SOCKET_BAD }
            return Unmanaged<PushTransfer>.fromOpaque(context).takeUnretainedValue().openSocket(address)
        }
        settings.receive_head = { bytes, size, count, context in
            PushTransfer.receive(bytes, size, count, context) { $0.took(head: $1) }
        }
        settings.receive_body = { bytes, size, count, context in
            PushTransfer.receive(bytes, size, count, context) { $0.body.append(contentsOf: $1) }
        }
        return configuration.userAgent.withCString { agent in
            withOptionalCString(configuration.caFile) { file in
                (settings.user_agent, settings.ca_file) = (agent, file)
                return carillon_curl_prepare(handle, &settings)
            }
        }
    }

    private func aim(_ request: PushRequest) -> CURLcode {
        var settings = carillon_curl_request()
        settings.headers = headers
        settings.http_version =
            request.isHTTP2Only && request.url.hasPrefix("http://")
            ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE : CURL_HTTP_VERSION_2TLS
        settings.waits_to_share = request.sharesConnection ? 1 : 0
        return request.url.withCString { url in
            request.body.withUnsafeBytes { body in
                (settings.url, settings.body, settings.body_count) = (url, body.baseAddress, body.count)
                return carillon_curl_aim(handle, &settings)
            }
        }
    }

    private func openSocket(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        let descriptor = socket(
            address.pointee.family, address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue), address.pointee.protocol)
        if descriptor < 0 {
            if errno == EMFILE || errno == ENFILE { lacksDescriptors = true }
            return descriptor
        }
        // A shared connection that a firewall has forgotten would fail each of its requests for a quarter of an hour.
        var milliseconds = Int32(clamping: PushLimits.silenceMax.wholeMilliseconds)
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &milliseconds, socklen_t(MemoryLayout<Int32>.size))
        return descriptor
    }

    private static func receive(
        _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?,
        _ take: (PushTransfer, UnsafeRawBufferPointer) -> Void
    ) -> Int {
        guard let context else { return 0 }
        let transfer = Unmanaged<PushTransfer>.fromOpaque(context).takeUnretainedValue()
        let (total, overflow) = size.multipliedReportingOverflow(by: count)
        guard !overflow, total <= PushLimits.answerBytesMax - transfer.received else {
            return Int(CURL_WRITEFUNC_ERROR)
        }
        transfer.received += total
        take(transfer, UnsafeRawBufferPointer(start: bytes, count: total))
        return total
    }

    /// One line of the head.
    private func took(head line: UnsafeRawBufferPointer) {
        // Nearly all lines are others.
        guard let first = line.first, first | 0x20 == UInt8(ascii: "r") else { return }
        let text = String(decoding: line, as: UTF8.self)
        guard let colon = text.firstIndex(of: ":"), text[..<colon].lowercased() == "retry-after" else { return }
        retryAfter =
            text[text.index(after: colon)...].filter { $0 != "\r" && $0 != "\n" && $0 != "\r\n" }
            .drop { $0 == " " }.description
    }
}

extension DeliveryFailure {
    /// What kept a request from an answer.
    init(_ code: CURLcode) {
        switch code {
        case CURLE_OPERATION_TIMEDOUT: self = .timeout
        case CURLE_COULDNT_RESOLVE_HOST: self = .name
        case CURLE_COULDNT_CONNECT: self = .connect
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR,
            CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER:
            self = .tls
        default: self = .broken
        }
    }
}
