import Bytes
import CWebClient
import Digests
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
    /// What the page's own style sheets are, as a policy names them.
    private let styles: String
    private let tag: EntityTag
    private let contentType: StaticString

    private static func files(below folder: String) -> [String: WebFile] {
        var texts: [String: String] = [:]
        for index in 0..<carillon_web_file_count() {
            guard let file = carillon_web_file_at(index)?.pointee else { continue }
            let path = String(cString: file.path)
            if path.hasPrefix(folder) { texts[path] = String(cString: file.text) }
        }
        return Dictionary(uniqueKeysWithValues: texts.map { ($0.key, WebFile($0.key, $0.value, among: texts)) })
    }

    /// In a page, a link to a style sheet becomes the sheet: a browser then paints after one answer. It would otherwise
    /// read the link first, and wait for the sheet behind the modules that it asks for at the same time.
    private init(_ name: String, _ text: String, among texts: [String: String]) {
        var (text, styles) = (text, "")
        for (path, sheet) in texts where name.hasSuffix(".html") && path.hasSuffix(".css") {
            let link = #"<link rel="stylesheet" href="\#(path)">"#
            guard text.contains(link) else { continue }
            text.replace(link, with: "<style>\(sheet)</style>")
            styles += " 'sha256-\(Self.base64Digest(of: sheet))'"
        }
        body = Array(text.utf8)
        self.styles = styles
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

    private static func base64Digest(of text: String) -> String {
        var text = text
        return text.withUTF8 { SHA256.hash(UnsafeRawBufferPointer($0)).withUnsafeBytes { Base64.encode($0) } }
    }

    /// The file, for a page that holds what others must not have.
    package func guardedResponse(to request: HTTPRequest) -> HTTPResponse {
        Self.guarded(response(to: request), styles: styles)
    }

    /// The answer, for a page that holds what others must not have: nothing is loaded from elsewhere, no text becomes code,
    /// and no other page holds it. `connect-src 'self'` covers a WebSocket. Of styles, a page has only those that the
    /// program was built with.
    package static func guarded(_ response: HTTPResponse, styles: String = "") -> HTTPResponse {
        response.with("Content-Security-Policy", styles.isEmpty ? policy : "\(policy); style-src\(styles)")
            .with("X-Content-Type-Options", "nosniff")
            .with("Referrer-Policy", "no-referrer").with("Cross-Origin-Opener-Policy", "same-origin")
    }

    private static let policy = """
        default-src 'none'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'; require-trusted-types-for 'script'
        """
}
