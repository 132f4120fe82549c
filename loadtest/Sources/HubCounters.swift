import Bytes
import Foundation
import Glibc
import HTTP

/// What a hub has counted so far, from its page of metrics.
struct HubCounters {
    /// Queries of the feed's connections for channels of users that come.
    struct Queries: Codable, Equatable {
        var positions = 0
        var replays = 0
        var pages = 0

        var all: Int { positions + replays + pages }
    }

    private let values: [Substring: Int]

    init(_ page: String) {
        var values: [Substring: Int] = [:]
        for line in page.split(separator: "\n") where !line.hasPrefix("#") {
            let parts = line.split(separator: " ")
            if parts.count == 2, let value = Double(parts[1]), abs(value) < 1e15 { values[parts[0]] = Int(value) }
        }
        self.values = values
    }

    /// Asks a hub.
    init(of address: LoadAddress) throws {
        self.init(try Self.page(of: address))
    }

    subscript(name: String) -> Int { values["carillon_\(name)"] ?? 0 }

    private func reads(_ kind: String) -> Int { self[#"feed_reads_total{kind="\#(kind)"}"#] }

    var queries: Queries { Queries(positions: reads("positions"), replays: reads("replay"), pages: reads("log")) }

    private static func page(of address: LoadAddress) throws -> String {
        let socket = try address.connect(source: 0)
        defer { close(socket) }
        _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK)
        var writing = pollfd(fd: socket, events: Int16(POLLOUT), revents: 0)
        _ = poll(&writing, 1, 10_000)
        let request = "GET /metrics HTTP/1.1\r\nHost: \(address.text)\r\nConnection: close\r\n\r\n"
        guard request.utf8.count == request.withCString({ send(socket, $0, strlen($0), Int32(MSG_NOSIGNAL)) })
        else { throw LoadFailure("\(address.text): tells no metrics") }
        var page: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = recv(socket, &piece, piece.count, 0), count > 0 { page += piece[..<count] }
        let body = try page.withUnsafeBytes { bytes -> String? in
            guard let head = try ResponseHead.parse(bytes), head.statusCode == 200 else { return nil }
            return bytes.part(head.consumed..<bytes.count).string
        }
        guard let body else { throw LoadFailure("\(address.text): tells no metrics") }
        return body
    }
}

extension HubCounters.Queries {
    static func - (left: Self, right: Self) -> Self {
        Self(
            positions: left.positions - right.positions, replays: left.replays - right.replays,
            pages: left.pages - right.pages)
    }
}
