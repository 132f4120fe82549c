import CWebClient
import Gateway
import HTTP

/// A file for browsers, compiled into the program: a module of the web client (Sources/Clients/Web), served below
/// `/client/`, or a part of the demonstration's page (Sources/Clients/Demonstration).
struct WebFile: Sendable {
    /// The web client's modules by their paths: a page imports `/client/carillon.js`.
    static let client = files(below: "/client/", carillon_web_module_count()) { carillon_web_module_at($0)?.pointee }

    /// The files of the demonstration's page by their paths.
    static let demonstration = files(below: "/demo/", carillon_demonstration_file_count()) {
        carillon_demonstration_file_at($0)?.pointee
    }

    let body: [UInt8]
    private let tag: EntityTag
    private let contentType: StaticString

    private static func files(
        below folder: String, _ count: Int, _ file: (Int) -> carillon_web_module?
    ) -> [String: WebFile] {
        Dictionary(
            uniqueKeysWithValues: (0..<count).compactMap(file).map { file in
                let name = String(cString: file.name)
                return (
                    folder + name, WebFile(name, Array(UnsafeRawBufferPointer(start: file.bytes, count: file.length)))
                )
            })
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
    func response(to request: HTTPRequest) -> HTTPResponse {
        let isKnown = request.ifNoneMatch.map { tag.isNamed(by: $0) } ?? false
        return (isKnown ? HTTPResponse(.notModified) : HTTPResponse(.ok, contentType: contentType, body: body))
            .with("ETag", tag.text)
            .with("Cache-Control", "no-cache")
            .with("Vary", "Origin")
    }
}
