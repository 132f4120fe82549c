import CCurl

/// libcurl's multi handle: transfers side by side, and the connections that they leave for the next.
///
/// `@unchecked Sendable`: all but `wake` is of one thread; `curl_multi_wakeup` may be called on any (its manual), as long
/// as the handle is there, which this object's reference sees to.
final class CurlMulti: @unchecked Sendable {
    private let multi: UnsafeMutableRawPointer

    private static let isReady: Bool = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// - Parameter connections: open at most, those that are kept for further requests included.
    /// - Throws: `CourierError`, for want of memory.
    init(connections: Int) throws(CourierError) {
        guard Self.isReady, let multi = curl_multi_init() else { throw CourierError("libcurl cannot be used") }
        self.multi = multi
        _ = carillon_curl_limit_connections(multi, connections)
    }

    deinit {
        curl_multi_cleanup(multi)
    }

    /// Begins a transfer; false where it cannot. It is kept until `remove`.
    func add(_ transfer: Transfer) -> Bool {
        curl_multi_add_handle(multi, transfer.handle) == CURLM_OK
    }

    /// Ends a transfer, whatever it has come to.
    func remove(_ transfer: Transfer) {
        curl_multi_remove_handle(multi, transfer.handle)
    }

    /// Goes on with all transfers, and tells which have ended.
    func perform(_ ended: (Transfer, CURLcode) -> Void) {
        var running: Int32 = 0
        curl_multi_perform(multi, &running)
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = Transfer.of(handle)
            else { continue }
            ended(transfer, carillon_curl_result(message))
        }
    }

    /// Waits until a transfer can go on, `wake` is called, or the time is over.
    func wait(milliseconds: Int32) {
        curl_multi_poll(multi, nil, 0, milliseconds, nil)
    }

    /// Ends the wait under way, or the next. Any thread.
    func wake() {
        curl_multi_wakeup(multi)
    }
}

/// Why the courier cannot start.
package struct CourierError: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
