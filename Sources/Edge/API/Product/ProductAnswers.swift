import Bytes
import Gateway
import HTTP
import JSON
import Store
import Sync

// The HTTP responses of the product's routes.

extension HTTPResponse {
    /// The response to a snapshot request; `field` is the request's `If-None-Match`.
    ///
    /// `X-Sync-Position: {epoch}:{offset}` is the stream's position in the same database snapshot: events up to it are in
    /// the body, later ones follow. An epoch contains no colon. A 304 carries it too: the unchanged body is current up to
    /// there.
    static func snapshot(
        _ answer: SnapshotAnswer, _ freshness: ProductRoute.Freshness, unless field: [UInt8]?,
        _ failures: [String: ProductRoute.Failure]
    ) -> HTTPResponse {
        switch answer {
        case .found(let snapshot):
            let tag = freshness == .unkept ? nil : EntityTag(of: snapshot.body)
            let isKnown = tag.map { tag in field.map { tag.isNamed(by: $0) } ?? false } ?? false
            let response = (isKnown ? HTTPResponse(.notModified) : HTTPResponse(.ok, body: snapshot.body))
                .with("X-Sync-Position", "\(snapshot.epoch):\(snapshot.offset)")
            return (tag.map { response.with("ETag", $0.text) } ?? response)
                .with("Cache-Control", freshness.directives)
                .with("Vary", "Origin, Authorization")
        case .missing: return failure(ProductRoute.missingCode, failures)
        case .refused(let code): return failure(code, failures)
        case .tooLarge:
            return .problem(.internalServerError, "This is more than the hub hands out in one piece.")
        case .unavailable(let wait):
            return HTTPResponse.problem(.serviceUnavailable, "The database cannot be read at the moment.")
                .retrying(after: wait)
        }
    }

    /// The response to documents that a client appends.
    static func appended(_ answer: AppendAnswer) -> HTTPResponse {
        switch answer {
        case .taken: HTTPResponse(.accepted, body: Array("{}".utf8))
        case .noRoom:
            problem(.serviceUnavailable, "Too much waits to be written.").retrying(after: .seconds(5))
        case .tooMany(let wait):
            problem(.tooManyRequests, "This user sends more than a user may.").retrying(after: wait)
        }
    }

    static func export(_ answer: ExportAnswer, _ failures: [String: ProductRoute.Failure]) -> HTTPResponse {
        switch answer {
        case .begun(let contentType, let export):
            var response = HTTPResponse(.ok).with("Cache-Control", "no-store").with("Vary", "Origin, Authorization")
            response.export = (export, contentType)
            return response
        case .missing: return failure(ProductRoute.missingCode, failures)
        case .refused(let code): return failure(code, failures)
        case .unavailable(let wait):
            return HTTPResponse.problem(.serviceUnavailable, "This cannot be exported at the moment.")
                .retrying(after: wait)
        }
    }

    private static func failure(_ code: String, _ failures: [String: ProductRoute.Failure]) -> HTTPResponse {
        let failure = failures[code] ?? ProductRoute.Failure(.notFound, "There is nothing here.")
        return problem(failure.status, failure.message).with("Cache-Control", "no-store")
    }

    /// The response to an action, in the request's shape and wording.
    static func result(
        _ answer: ActionAnswer, _ wording: ActionWording, _ failures: [String: ProductRoute.Failure]
    ) -> HTTPResponse {
        let body = wording.shape == .envelope ? answer.json.array : PlainAnswer.body(of: answer, to: wording)
        let response = HTTPResponse(answer.httpStatus(failures), body: body)
        return answer.status == .retry ? response.retrying(after: answer.retryAfter ?? .zero) : response
    }

    /// The response to an action that cannot be handed to the database.
    static func refusal(of error: ActionError, _ failures: [String: ProductRoute.Failure]) -> HTTPResponse {
        switch error {
        case .keyless(let message): .problem(.badRequest, message)
        case .invalid(let key, let path, let message, let wording):
            .result(.invalid(key: key, path: path.description, message: message), wording, failures)
        }
    }

    /// The response to a batch: a `sync:result` for each action.
    static func results(_ answers: [ActionAnswer]) -> HTTPResponse {
        var body = ByteWriter(capacity: answers.reduce(16) { $0 + $1.json.count + 1 })
        body.append(#"{"results":["#)
        for (index, answer) in answers.enumerated() {
            if index > 0 { body.append(",") }
            answer.json.withUnsafeBytes { body.append($0) }
        }
        body.append("]}")
        let response = HTTPResponse(.ok, body: body.array)
        let wait = answers.lazy.filter { $0.status == .retry }.map { $0.retryAfter ?? .zero }.max()
        return wait.map { response.retrying(after: $0) } ?? response
    }
}

extension ProductRoute.Freshness {
    fileprivate var directives: String {
        switch self {
        // A browser keeps what it has stored after its user has signed out.
        case .asks: "no-store"
        case .seconds(let seconds): "private, max-age=\(seconds)"
        case .unkept: "no-store"
        }
    }
}

extension ExportAnswer {
    /// The label in metrics.
    var label: String {
        switch self {
        case .begun: "begun"
        case .missing: "missing"
        case .refused: "refused"
        case .unavailable: "unavailable"
        }
    }
}

extension ActionAnswer {
    fileprivate func httpStatus(_ failures: [String: ProductRoute.Failure]) -> Status {
        switch status {
        case .applied, .noop, .partial: .ok
        case .conflict: .conflict
        case .rejected:
            code.flatMap { failures[$0]?.status ?? ($0 == "forbidden" ? .forbidden : nil) } ?? .unprocessableContent
        case .retry: retry == .rateLimited ? .tooManyRequests : .serviceUnavailable
        }
    }

    private var code: String? {
        json.withUnsafeBytes { json in
            guard var reader = try? JSONObjectReader(json) else { return nil }
            while let member = try? reader.next() {
                if member.isNamed("code") { return member.value.string }
            }
            return nil
        }
    }
}
