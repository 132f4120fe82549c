import CWebClient
import Gateway
import HTTP

/// A module of the web client (Sources/Clients/Web), served below `/client/`: a page imports `/client/carillon.js`.
struct WebClientFile: Sendable {
    /// The modules by their paths.
    static let all: [String: WebClientFile] = Dictionary(
        uniqueKeysWithValues: (0..<carillon_web_module_count()).compactMap { index in
            guard let module = carillon_web_module_at(index)?.pointee else { return nil }
            let bytes = UnsafeRawBufferPointer(start: module.bytes, count: module.length)
            let name = String(cString: module.name)
            return ("/client/\(name)", WebClientFile(body: Array(bytes), isScript: name.hasSuffix(".js")))
        })

    let body: [UInt8]
    private let tag: EntityTag
    private let isScript: Bool

    private init(body: [UInt8], isScript: Bool) {
        self.body = body
        self.isScript = isScript
        tag = EntityTag(of: body)
    }

    /// Anybody may read it. A page asks each time whether its copy is that of this hub, so that modules of two versions
    /// never meet.
    func response(to request: HTTPRequest) -> HTTPResponse {
        let isKnown = request.ifNoneMatch.map { tag.isNamed(by: $0) } ?? false
        return
            (isKnown
            ? HTTPResponse(.notModified)
            : HTTPResponse(
                .ok, contentType: isScript ? "text/javascript; charset=utf-8" : "text/plain; charset=utf-8", body: body))
            .with("ETag", tag.text)
            .with("Cache-Control", "no-cache")
            .with("Vary", "Origin")
    }
}
