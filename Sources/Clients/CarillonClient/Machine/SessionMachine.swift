import JSON

/// Who the user is on a line: signs in with the app's tokens, and again before they expire.
struct SessionMachine: Sendable {
    let user: String
    private(set) var isReady = false
    /// Counts lines: a token that was asked for on another one comes too late.
    private(set) var serial = 0
    private var isWaiting = false
    private var backoff = JitteredWait()

    private static let answerMs = 15_000

    init(user: String) {
        self.user = user
    }

    /// The line has opened or gone.
    mutating func line(isOpen: Bool, _ out: inout [ClientEffect]) {
        serial += 1
        isReady = false
        isWaiting = false
        out.append(.cancel(.signIn))
        if isOpen { signIn(&out) }
    }

    mutating func signIn(_ out: inout [ClientEffect]) { out.append(.token(serial: serial)) }

    /// The app's token is here, or it has none.
    mutating func token(
        _ result: Result<String, CarillonError>, serial: Int, line: ConnectionMachine, random: Double,
        _ out: inout [ClientEffect]
    ) {
        guard serial == self.serial else { return }
        switch result {
        case .success(let token):
            isWaiting = line.send("sync:auth", .object([.init("token", .string(token))]), &out)
            out.append(.timer(.signIn, milliseconds: Self.answerMs))
        case .failure(let error): refused(error, random: random, &out)
        }
    }

    enum Turn {
        case none, ready
        /// The line is another user's: what would be sent over it would be done in another account.
        case stranger
    }

    mutating func hear(_ event: String, _ data: JSONTree, random: Double, _ out: inout [ClientEffect]) -> Turn {
        switch event {
        case "sync:auth_ok":
            out.append(.cancel(.signIn))
            let named = data["userId"]?.string ?? ""
            guard named.utf8.elementsEqual(user.utf8) else {
                (isReady, isWaiting) = (false, false)
                out.append(.problem(.wrongUser(named)))
                return .stranger
            }
            out.append(.problem(nil))
            backoff.reset()
            isWaiting = false
            guard !isReady else { return .none }
            isReady = true
            return .ready
        case "sync:auth_expiring": signIn(&out)
        case "pusher:error" where isWaiting:
            isWaiting = false
            refused(.unauthorized(data["message"]?.string ?? "the hub refuses the token"), random: random, &out)
        default: break
        }
        return .none
    }

    /// Asks the app for another token after a pause. The line stays, and with it what was signed in before.
    private mutating func refused(_ error: CarillonError, random: Double, _ out: inout [ClientEffect]) {
        out += [.problem(error), .timer(.signIn, milliseconds: 500 + backoff.next(random))]
    }

    /// The pause has ended, or no answer came. Returns whether the line is of no use.
    mutating func timer(_ out: inout [ClientEffect]) -> Bool {
        if isWaiting { return true }
        signIn(&out)
        return false
    }
}
