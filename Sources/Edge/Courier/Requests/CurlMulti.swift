import CCurl

/// libcurl's multi handle: concurrent transfers, and a cache of their connections.
///
/// `@unchecked Sendable`: one thread makes all calls except `wake`. `curl_multi_wakeup` may be called on any thread (its
/// manual) while the handle exists; a reference to this object keeps it alive.
final class CurlMulti: @unchecked Sendable {
    private let multi: UnsafeMutableRawPointer

    private static let isReady: Bool = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    /// - Parameter connections: the bound of open connections, including cached ones.
    /// - Throws: `CourierError` if memory runs out.
    init(connections: Int) throws(CourierError) {
        guard Self.isReady, let multi = curl_multi_init() else { throw CourierError("libcurl cannot be used") }
        self.multi = multi
        _ = carillon_curl_limit_connections(multi, connections)
    }

    deinit {
        curl_multi_cleanup(multi)
    }

    /// Begins a transfer; false if it cannot. The caller keeps the transfer until `remove`.
    func add(_ transfer: Transfer) -> Bool {
        curl_multi_add_handle(multi, transfer.handle) == CURLM_OK
    }

    func remove(_ transfer: Transfer) {
        curl_multi_remove_handle(multi, transfer.handle)
    }

    /// Advances all transfers, and reports those that have ended.
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

    /// Waits until a transfer can proceed, `wake` is called, or the time is over.
    func wait(milliseconds: Int32) {
        curl_multi_poll(multi, nil, 0, milliseconds, nil)
    }

    /// Ends the current wait, or the next. Any thread.
    func wake() {
        curl_multi_wakeup(multi)
    }
}

/// Why the courier cannot start.
package struct CourierError: Error, CustomStringConvertible {
    /// The reason, for operators.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
