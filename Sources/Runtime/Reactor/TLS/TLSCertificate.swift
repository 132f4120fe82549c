import COpenSSL
import Clock
import Glibc

/// A certificate and its key, as the operator names them: two files in PEM form.
package struct TLSCertificateFiles: Sendable, Hashable {
    /// The certificate, followed by those that lead from it to a root.
    package let certificate: String
    /// The private key, without a password.
    package let key: String

    /// Two files; both may be the same.
    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}

/// The hub's view of a certificate.
package struct TLSCertificate: Sendable {
    /// Its file.
    package let path: String
    /// Host names, lower-case; `*.example.org` is every name with one label before `.example.org`.
    package let names: [String]
    /// Seconds since 1970; negative where the certificate does not say.
    package let validFrom: Int64
    /// The end of its validity in seconds since 1970; negative where the certificate does not say.
    package let expiresAt: Int64

    /// How long before its end a certificate is warned about, in seconds.
    package static let warningTime: Int64 = 14 * 86_400

    init(_ certificate: OpaquePointer, path: String) {
        self.path = path
        names = Self.names(of: certificate)
        validFrom = Int64(carillon_unix_time(X509_get0_notBefore(certificate)))
        expiresAt = Int64(carillon_unix_time(X509_get0_notAfter(certificate)))
    }

    /// A warning for the operator about its times; nil where they are good.
    package func warning(now: Int64 = UnixTime.read().microseconds / 1_000_000) -> String? {
        if expiresAt <= now {
            return "\(path): this certificate has expired, and clients refuse it; put a new one there"
        }
        if validFrom > now { return "\(path): this certificate is not valid yet; is this machine's clock right?" }
        if expiresAt - now < Self.warningTime {
            return "\(path): this certificate expires in \((expiresAt - now) / 86_400) days; put a new one there"
        }
        return nil
    }

    /// The DNS names of the extension, otherwise the subject's common name (RFC 6125 §6.4.4).
    private static func names(of certificate: OpaquePointer) -> [String] {
        var found: [String] = []
        if let names = X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) {
            let names = OpaquePointer(names)
            defer { GENERAL_NAMES_free(names) }
            for index in 0..<carillon_general_name_count(names) {
                var count: Int32 = 0
                guard let name = carillon_dns_name(names, index, &count), count > 0 else { continue }
                let bytes = UnsafeBufferPointer(start: name, count: Int(count))
                found.append(String(decoding: bytes, as: UTF8.self).lowercased())
            }
        } else if let subject = X509_get_subject_name(certificate) {
            var text = [CChar](repeating: 0, count: 256)
            let count = X509_NAME_get_text_by_NID(subject, NID_commonName, &text, Int32(text.count))
            if count > 0 {
                let bytes = text.prefix(Int(count)).map(UInt8.init(bitPattern:))
                found.append(String(decoding: bytes, as: UTF8.self).lowercased())
            }
        }
        OpenSSLErrors.clear()
        return found
    }
}

/// Checks of a file that holds a secret.
package enum SecretFile {
    /// A warning where users other than its owner and group may read the file.
    package static func warning(_ path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IROTH != 0 else { return nil }
        return "\(path): every user of this machine can read this secret: chmod o-r"
    }

    /// - Throws: why the file cannot be read.
    static func check(_ path: String) throws(TLSError) {
        guard access(path, R_OK) == 0 else { throw TLSError("\(path): \(String(cString: strerror(errno)))") }
    }
}
