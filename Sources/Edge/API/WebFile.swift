import CWebClient
import Gateway
import HTTP

/// A file for browsers, compiled into the program: a module of the web client (Sources/Clients/Web), or a part of the
/// demonstration's page (Sources/Clients/Demonstration) or of the console (Sources/Clients/Console).
package struct WebFile: Sendable {
    /// The web client's modules by their paths: a page imports `/client/carillon.js`.
    static let client = files(below: "/client/")

    /// The files of the demonstration's page by their paths.
    static let demonstration = files(below: "/demo/")

    /// The files of the console by their paths.
    package static let console = files(below: "/console/")

    /// The file's bytes.
    package let body: [UInt8]
    private let tag: EntityTag
    private let contentType: StaticString

    private static func files(below folder: String) -> [String: WebFile] {
        var files: [String: WebFile] = [:]
        for index in 0..<carillon_web_file_count() {
            guard let file = carillon_web_file_at(index)?.pointee else { continue }
            let path = String(cString: file.path)
            if path.hasPrefix(folder) { files[path] = WebFile(path, Array(String(cString: file.text).utf8)) }
        }
        return files
    }

    private init(_ name: String, _ body: [UInt8]) {
        self.body = body
        tag = EntityTag(of: body)
        contentType =
            switch name.split(separator: ".").last {
            case "js": "text/javascript; charset=utf-8"
            case "html": "text/html; charset=utf-8"
            case "css": "text/css; charset=utf-8"
            case "svg": "image/svg+xml"
            default: "text/plain; charset=utf-8"
            }
    }

    /// Anybody may read it. A page asks each time whether its copy is that of this hub, so that modules of two versions
    /// never meet.
    package func response(to request: HTTPRequest) -> HTTPResponse {
        let isKnown = request.ifNoneMatch.map { tag.isNamed(by: $0) } ?? false
        return (isKnown ? HTTPResponse(.notModified) : HTTPResponse(.ok, contentType: contentType, body: body))
            .with("ETag", tag.text)
            .with("Cache-Control", "no-cache")
            .with("Vary", "Origin")
    }

    /// The answer, for a page that holds what others must not have: nothing is loaded from elsewhere, no text becomes code,
    /// and no other page holds it. `connect-src 'self'` covers a WebSocket.
    package static func guarded(_ response: HTTPResponse) -> HTTPResponse {
        response.with("Content-Security-Policy", policy).with("X-Content-Type-Options", "nosniff")
            .with("Referrer-Policy", "no-referrer").with("Cross-Origin-Opener-Policy", "same-origin")
    }

    private static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
        form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'
        """
}
