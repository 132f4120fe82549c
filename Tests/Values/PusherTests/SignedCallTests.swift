import Bytes
import Digests
import Pusher
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct SignedCallTests {
    private static let app = AppCredentials(key: "278d425bdf160c739803", secret: "7ad3773142a6692b25b8")
    private static let now: Int64 = 1_353_088_179

    private func call(
        _ path: String, _ query: String, body: String = "", method: StaticString = "POST",
        by app: AppCredentials = Self.app, now: Int64 = Self.now
    ) -> Result<SignedCall, CallRefusal> {
        withBytes(path) { path in
            withBytes(query) { query in
                withBytes(body) { body in
                    Result { () throws(CallRefusal) in
                        try SignedCall(
                            SignedCall.Request(method: method, path: path, query: query, body: body), by: app, now: now)
                    }
                }
            }
        }
    }

    private func refusal(_ result: Result<SignedCall, CallRefusal>) -> CallRefusal? {
        if case .failure(let refusal) = result { refusal } else { nil }
    }

    /// A library's query: the parameters and their signature.
    private func signed(
        _ path: String, _ parameters: String, method: StaticString = "GET", as signedPath: String? = nil,
        by app: AppCredentials = Self.app
    ) -> String {
        parameters + "&auth_signature=" + app.sign(call: method, path: signedPath ?? path, parameters: parameters)
    }

    private static let auth = "auth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0"

    // MARK: Vectors

    /// Pusher's "HTTP API reference", "Worked authentication example".
    @Test func theDocumentedCallIsGood() throws {
        let body = #"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#
        let query =
            Self.auth + "&body_md5=ec365a775a4cd0599faeb73354201b6f"
            + "&auth_signature=da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c"
        let call = try call("/apps/3/events", query, body: body).get()
        #expect(call.timestamp == Self.now)
        #expect(call.parameters.string("auth_version") == "1.0")
        // Hexadecimal of either case, and parameters in any order.
        let other = query.split(separator: "&").reversed().joined(separator: "&").replacing(
            "da454824", with: "DA454824")
        #expect(try self.call("/apps/3/events", other, body: body).get().mark == call.mark)
    }

    @Test(arguments: [
        ("auth_key=278d425bdf160c739803&", "", CallRefusal.wrongKey),
        ("auth_key=278d425bdf160c739803", "auth_key=278d425bdf160c739804", .wrongKey),
        ("auth_version=1.0", "auth_version=1.1", .wrongVersion), ("&auth_version=1.0", "", .wrongVersion),
        ("auth_timestamp=1353088179&", "", .noTimestamp), ("1353088179", "soon", .noTimestamp),
        ("1353088179", "-1353088179", .noTimestamp), ("1353088179", "99999999999999999999", .noTimestamp),
        ("1353088179", "1353088780", .untimely), ("1353088179", "1353087578", .untimely),
        ("1353088179", "9223372036854775807", .untimely), ("1353088179", "0", .untimely),
        ("1353088179", "1353088180", .wrongSignature),
        ("ec365a77", "fc365a77", .wrongSignature), ("&body_md5=ec365a775a4cd0599faeb73354201b6f", "", .wrongSignature),
        ("6f&", "&", .wrongSignature),
        ("da454824", "ea454824", .wrongSignature), ("7e6c", "7e6", .wrongSignature),
        ("auth_signature=", "auth_signature2=", .noSignature),
        ("auth_version=1.0", "auth_version=1.0&a=b", .wrongSignature),
        ("auth_version=1.0", "auth_version=1.0&auth_version=1.0", .repeatedParameter),
        ("auth_version=1.0", "auth_version=1.0&Auth_Key=x", .repeatedParameter),
    ])
    func allElseIsRefused(_ part: String, _ other: String, _ expected: CallRefusal) {
        let body = #"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#
        let query =
            Self.auth + "&body_md5=ec365a775a4cd0599faeb73354201b6f"
            + "&auth_signature=da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c"
        #expect(refusal(call("/apps/3/events", query.replacing(part, with: other), body: body)) == expected)
    }

    /// Checked only for callers with the secret.
    @Test func theBodyIsTheOneThatWasSigned() {
        let bare = signed("/apps/3/events", Self.auth, method: "POST")
        #expect(refusal(call("/apps/3/events", bare, body: "{}")) == .noBodyDigest)
        #expect(refusal(call("/apps/3/events", bare, body: "")) == nil)
        let digest = signed(
            "/apps/3/events", Self.auth + "&body_md5=99914b932bd37a50b983c5e7c90ae93b", method: "POST")
        #expect(refusal(call("/apps/3/events", digest, body: "{}")) == nil)
        #expect(refusal(call("/apps/3/events", digest, body: "{ }")) == .wrongBodyDigest)
        #expect(
            refusal(call("/apps/3/events", digest.replacing("99914b", with: "99914c"), body: "{}")) == .wrongSignature)
    }

    @Test func methodAndPathAndSecretCount() {
        let query = signed("/apps/3/channels", Self.auth)
        #expect(refusal(call("/apps/3/channels", query, method: "GET")) == nil)
        #expect(refusal(call("/apps/3/channels", query, method: "POST")) == .wrongSignature)
        #expect(refusal(call("/apps/3/channel", query, method: "GET")) == .wrongSignature)
        let other = AppCredentials(key: "278d425bdf160c739803", secret: "x")
        #expect(refusal(call("/apps/3/channels", query, method: "GET", by: other)) == .wrongSignature)
        let rotated = AppCredentials(key: "278d425bdf160c739803", secret: "x", previousSecret: "7ad3773142a6692b25b8")
        #expect(refusal(call("/apps/3/channels", query, method: "GET", by: rotated)) == nil)
    }

    @Test func theTimestampIsGoodForTenMinutesEitherWay() {
        let query = signed("/apps/3/channels", Self.auth)
        for (apart, expected) in [(-601, CallRefusal.untimely), (-600, nil), (600, nil), (601, .untimely)]
            as [(Int64, CallRefusal?)]
        {
            #expect(refusal(call("/apps/3/channels", query, method: "GET", now: Self.now + apart)) == expected)
        }
        #expect(refusal(call("/apps/3/channels", query, method: "GET", now: .min)) == .untimely)
    }

    // MARK: Encodings of libraries

    /// pusher-http-python sends the MD5 of an empty body (pusher.md §2, trap a).
    @Test func theDigestOfNothingIsChecked() {
        let nothing = signed("/apps/3/channels", Self.auth + "&body_md5=d41d8cd98f00b204e9800998ecf8427e")
        #expect(refusal(call("/apps/3/channels", nothing, method: "GET")) == nil)
        let wrong = signed("/apps/3/channels", Self.auth + "&body_md5=d41d8cd98f00b204e9800998ecf8427f")
        #expect(refusal(call("/apps/3/channels", wrong, method: "GET")) == .wrongBodyDigest)
    }

    /// Values are signed unescaped and sent escaped, or not; some libraries send a space as a plus sign (trap c).
    @Test(arguments: [
        ("info=user_count,subscription_count", "info=user_count%2Csubscription_count"),
        ("info=user_count,subscription_count", "info=user_count,subscription_count"),
        ("name=a b", "name=a+b"), ("name=a+b", "name=a+b"), ("name=a b+c", "name=a+b%2Bc"),
        ("name=100%", "name=100%"), ("name=%zz", "name=%zz"), ("name=é", "name=%C3%A9"), ("name", "name=&"),
        ("name=a&b", "name=a%26b"),
    ])
    func valuesAreDecoded(_ signedAs: String, _ sent: String) {
        let prefix = signedAs.contains("=") ? signedAs : signedAs + "="
        let code = Self.app.sign(call: "GET", path: "/apps/3/channels", parameters: Self.auth + "&" + prefix)
        let query = "auth_signature=\(code)&\(sent)&\(Self.auth)"
        #expect(refusal(call("/apps/3/channels", query, method: "GET")) == nil)
    }

    /// Names are signed in lower case and sorted; values of one name stay in order (trap d).
    @Test func namesAreSorted() throws {
        let parameters = Self.auth + "&channels[]=b&channels[]=a&name=n"
        let code = Self.app.sign(call: "POST", path: "/apps/3/events", parameters: parameters)
        let query =
            "NAME=n&channels%5B%5D=b&channels[]=a&auth_signature=\(code)&"
            + Self.auth.replacing("auth_key", with: "Auth_Key")
        let call = try call("/apps/3/events", query).get()
        #expect(call.parameters.values("channels[]") == [Array("b".utf8), Array("a".utf8)])
        #expect(call.parameters.string("name") == "n")
        let other = query.replacing("channels[]=a", with: "channels[]=c")
        #expect(refusal(self.call("/apps/3/events", other)) == .wrongSignature)
    }

    /// Paths are signed as sent, or as they were before escaping.
    @Test func pathsAreTriedInBothSpellings() {
        let raw = "/apps/3/channels/presence-a%40b%2C%3B/users"
        let decoded = "/apps/3/channels/presence-a@b,;/users"
        for path in [raw, decoded] {
            #expect(refusal(call(raw, signed(path, Self.auth), method: "GET")) == nil)
        }
        #expect(refusal(call(decoded, signed(raw, Self.auth), method: "GET")) == .wrongSignature)
    }

    // MARK: Bounds

    @Test func parametersAreBounded() throws {
        let many = (0..<125).map { "c\($0 + 100)=x" }.joined(separator: "&")
        let query = signed("/apps/3/channels", Self.auth + "&" + many)
        #expect(query.split(separator: "&").count == 129)
        #expect(refusal(call("/apps/3/channels", query, method: "GET")) == .tooManyParameters)
        let fewer = (0..<124).map { "c\($0 + 100)=x" }.joined(separator: "&")
        #expect(
            refusal(call("/apps/3/channels", signed("/apps/3/channels", Self.auth + "&" + fewer), method: "GET")) == nil
        )
    }

    @Test func refusalsTellNothingOfTheSignature() {
        for refusal in CallRefusal.allCases { #expect(!refusal.message.description.isEmpty) }
        let query = signed("/apps/3/channels", Self.auth)
        let code = String(query.suffix(64))
        for refusal in CallRefusal.allCases { #expect(!refusal.message.description.contains(code)) }
    }
}
