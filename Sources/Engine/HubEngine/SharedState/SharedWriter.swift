import Pusher

/// Why bytes from another process are not taken. The kind alone: they may say who takes what.
package enum SharedProblem: String, Error, Sendable, CaseIterable {
    /// They end too early, go on too long, or are longer than `SharedWriter.bytesMax`.
    case size
    /// They are of another version, or of no known kind, or a value in them cannot be.
    case malformed
    /// They are about an app that this hub does not serve.
    case unknownApp
}

/// What a message is about: its second byte, behind the version.
package enum SharedSubject: UInt8, Sendable {
    case channels = 1
    case users
    case command

    /// That of a message from another process; nil if it has none.
    package init?(of bytes: [UInt8]) {
        guard bytes.count > 1, let subject = SharedSubject(rawValue: bytes[1]) else { return nil }
        self = subject
    }
}

/// Writes values for another process: numbers in 7-bit groups, the lowest first; texts and data behind their length.
package struct SharedWriter {
    /// The longest message. A list of members, or of channels, is the longest.
    package static let bytesMax = 8 << 20
    /// The first byte of each message.
    static let version: UInt8 = 1

    /// What is written so far.
    package private(set) var bytes: [UInt8]
    private let apps: KnownApps

    init(_ subject: SharedSubject, _ apps: KnownApps) {
        self.apps = apps
        bytes = [Self.version, subject.rawValue]
    }

    /// Writes a part of a message.
    package init(part: [UInt8] = []) {
        apps = KnownApps()
        bytes = part
    }

    /// Writes a number.
    package mutating func write(_ number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    mutating func write(_ number: Int) { write(UInt64(clamping: number)) }

    mutating func write(_ flag: Bool) { bytes.append(flag ? 1 : 0) }

    mutating func write(_ text: String) {
        write(text.utf8.count)
        bytes.append(contentsOf: text.utf8)
    }

    mutating func write(_ data: [UInt8]) {
        write(data.count)
        bytes.append(contentsOf: data)
    }

    mutating func write<Value>(_ value: Value?, _ write: (inout SharedWriter, Value) -> Void) {
        self.write(value != nil)
        if let value { write(&self, value) }
    }

    mutating func write<Value>(_ values: some Collection<Value>, each write: (inout SharedWriter, Value) -> Void) {
        self.write(values.count)
        for value in values { write(&self, value) }
    }

    /// By its id, for it has another index in another process. Empty: it is not known here.
    mutating func write(app index: Int) { write(apps[index]?.id ?? "") }

    mutating func write(_ user: UserKey) {
        write(app: user.app)
        write(user.id)
    }

    mutating func write(_ key: ChannelKey) {
        write(app: key.app)
        write(key.name.string)
    }

    mutating func write(_ socketID: SocketID) {
        write(socketID.high)
        write(socketID.low)
    }

    mutating func write(_ member: PresenceMember) {
        write(member.id)
        write(member.info)
    }
}

/// Reads what `SharedWriter` writes. Any bytes may come.
package struct SharedReader {
    private let bytes: [UInt8]
    private var next = 2
    private let apps: KnownApps

    /// Reads a part of a message.
    package init(part bytes: [UInt8]) {
        self.bytes = bytes
        next = 0
        apps = KnownApps()
    }

    /// What is not read yet.
    package var rest: [UInt8] { Array(bytes[next...]) }

    /// Whether all is read.
    package var isAtEnd: Bool { next == bytes.count }

    init(_ bytes: [UInt8], _ subject: SharedSubject, _ apps: KnownApps) throws(SharedProblem) {
        guard bytes.count <= SharedWriter.bytesMax, bytes.count > 1 else { throw .size }
        guard bytes[0] == SharedWriter.version, bytes[1] == subject.rawValue else { throw .malformed }
        self.bytes = bytes
        self.apps = apps
    }

    func end() throws(SharedProblem) {
        guard next == bytes.count else { throw .size }
    }

    mutating func byte() throws(SharedProblem) -> UInt8 {
        guard next < bytes.count else { throw .size }
        defer { next += 1 }
        return bytes[next]
    }

    /// Reads a number.
    package mutating func number() throws(SharedProblem) -> UInt64 {
        var number: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            let byte = try byte()
            let group = UInt64(byte & 0x7F)
            // One spelling for each number.
            guard (group << shift) >> shift == group, byte != 0 || shift == 0 else { throw .malformed }
            number |= group << shift
            if byte < 0x80 { return number }
        }
        throw .malformed
    }

    mutating func count() throws(SharedProblem) -> Int {
        guard let count = Int(exactly: try number()), count <= Int32.max else { throw .malformed }
        return count
    }

    mutating func flag() throws(SharedProblem) -> Bool {
        let byte = try byte()
        guard byte < 2 else { throw .malformed }
        return byte == 1
    }

    /// Reads what stands behind its length.
    package mutating func data() throws(SharedProblem) -> [UInt8] {
        let count = try count()
        guard count <= bytes.count - next else { throw .size }
        defer { next += count }
        return Array(bytes[next..<next + count])
    }

    mutating func text() throws(SharedProblem) -> String {
        let data = try data()
        guard let text = String(validating: data, as: UTF8.self) else { throw .malformed }
        return text
    }

    mutating func optional<Value>(
        _ read: (inout SharedReader) throws(SharedProblem) -> Value
    ) throws(SharedProblem) -> Value? {
        try flag() ? try read(&self) : nil
    }

    mutating func list<Value>(
        _ read: (inout SharedReader) throws(SharedProblem) -> Value
    ) throws(SharedProblem) -> [Value] {
        let count = try count()
        // Each takes a byte at least.
        guard count <= bytes.count - next else { throw .size }
        var values: [Value] = []
        for _ in 0..<count { values.append(try read(&self)) }
        return values
    }

    mutating func app() throws(SharedProblem) -> Int {
        guard let index = apps.index(of: try text()) else { throw .unknownApp }
        return index
    }

    mutating func user() throws(SharedProblem) -> UserKey {
        let app = try app()
        return UserKey(try text(), of: app)
    }

    mutating func serial() throws(SharedProblem) -> UInt32 {
        guard let serial = UInt32(exactly: try number()) else { throw .malformed }
        return serial
    }

    mutating func name() throws(SharedProblem) -> ChannelName {
        guard let name = ChannelName(try text()) else { throw .malformed }
        return name
    }

    mutating func key() throws(SharedProblem) -> ChannelKey { ChannelKey(try app(), try name()) }

    mutating func socketID() throws(SharedProblem) -> SocketID {
        guard let id = SocketID(high: try number(), low: try number()) else { throw .malformed }
        return id
    }

    mutating func member() throws(SharedProblem) -> PresenceMember {
        PresenceMember(id: try text(), info: try data())
    }
}
