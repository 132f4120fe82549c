import Channels
import Gateway
import HTTP
import Pusher

extension HTTPRequest {
    /// Verifies the request as a call signed by the app; `seconds` is the time since 1970.
    func verified(by app: App, at seconds: Int64) throws(CallProblem) -> SignedCall {
        var path = path
        let result: Result<SignedCall, CallRefusal> = path.withUTF8 { path in
            query.withUnsafeBytes { query in
                body.withUnsafeBytes { body in
                    Result { () throws(CallRefusal) in
                        try SignedCall(
                            SignedCall.Request(
                                method: method.name, path: UnsafeRawBufferPointer(path), query: query, body: body),
                            by: app.credentials, now: seconds)
                    }
                }
            }
        }
        switch result {
        case .success(let call): return call
        case .failure(let refusal): throw CallProblem(refusal)
        }
    }
}
