import Foundation

/// Certificates and keys made for one test by the `openssl` command, in a folder that is removed with this object.
public final class CertificateFolder: Sendable {
    /// The folder.
    public let path: String

    /// The paths of a certificate and its key.
    public struct Pair: Sendable {
        /// The certificate's file.
        public let certificate: String
        /// The key's file.
        public let key: String
    }

    /// A key's kind.
    public enum KeyKind: Sendable {
        case p256, rsa2048
        /// Too weak.
        case rsa1024

        fileprivate var name: String { self == .p256 ? "ec" : "rsa" }

        fileprivate var option: String {
            switch self {
            case .p256: "ec_paramgen_curve:P-256"
            case .rsa2048: "rsa_keygen_bits:2048"
            case .rsa1024: "rsa_keygen_bits:1024"
            }
        }
    }

    /// Why a command failed.
    public struct CommandFailure: Error {
        /// Its output.
        public let words: String
    }

    /// An empty folder.
    public init() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("carillon-tls-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.path
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    /// The path of a file in it.
    public func file(_ name: String) -> String { path + "/" + name }

    /// Creates or replaces `NAME.pem` and `NAME.key`: a self-signed certificate for these hosts.
    @discardableResult
    public func make(_ name: String, hosts: [String], days: Int = 90, kind: KeyKind = .p256) throws -> Pair {
        let pair = Pair(certificate: file("\(name).pem"), key: file("\(name).key"))
        try run([
            "req", "-x509", "-newkey", kind.name, "-pkeyopt", kind.option, "-nodes", "-days", "\(days)",
            "-subj", "/CN=\(hosts.first ?? name)", "-addext",
            "subjectAltName=" + hosts.map { "DNS:\($0)" }.joined(separator: ","), "-keyout", pair.key, "-out",
            pair.certificate,
        ])
        return pair
    }

    /// Creates a copy of a key with a password.
    public func lock(_ key: String, _ name: String) throws -> String {
        try run(["pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", file(name)])
        return file(name)
    }

    /// The bytes of a file.
    public func read(_ path: String) throws -> [UInt8] {
        [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    /// Writes a file of bytes.
    public func write(_ bytes: [UInt8], to name: String) throws -> String {
        try Data(bytes).write(to: URL(fileURLWithPath: file(name)))
        return file(name)
    }

    private func run(_ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        let words = Pipe()
        process.standardError = words
        process.standardOutput = words
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let said = words.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CommandFailure(words: String(decoding: said, as: UTF8.self)) }
    }
}
