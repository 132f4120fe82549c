import CCurl

/// A request in flight, known to libcurl by its easy handle, whose context it is.
protocol CurlTransfer: AnyObject {
    var handle: UnsafeMutableRawPointer { get }
}

/// libcurl's multi handle: concurrent transfers of one kind, and a cache of their connections.
///
/// `@unchecked Sendable`: one thread makes all calls except `wake`. `curl_multi_wakeup` may be called on any thread (its
/// manual) while the handle exists; a reference to this object keeps it alive.
final class CurlMulti<Transfer: CurlTransfer>: @unchecked Sendable {
    private let multi: UnsafeMutableRawPointer

    /// - Parameters:
    ///   - connections: the bound of open connections, including cached ones.
    ///   - ofHost: the bound of those to one host; 0 for none.
    ///   - streams: the bound of requests that share a connection of HTTP/2. A server may allow fewer.
    /// - Throws: `CourierError` if memory runs out.
    init(connections: Int, ofHost: Int = 0, streams: Int = 100) throws(CourierError) {
        guard isCurlReady, let multi = curl_multi_init() else { throw CourierError("libcurl cannot be used") }
        self.multi = multi
        _ = carillon_curl_limit_connections(multi, connections, ofHost, streams)
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
                let transfer = Self.transfer(of: handle)
            else { continue }
            ended(transfer, carillon_curl_result(message))
        }
    }

    /// The transfer of a handle that was reported.
    private static func transfer(of handle: UnsafeMutableRawPointer) -> Transfer? {
        carillon_curl_context(handle).map { Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
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

/// Whether libcurl's global state was made, once for the process.
private let isCurlReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

/// Why the courier cannot start.
package struct CourierError: Error, CustomStringConvertible {
    /// The reason, for operators.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
