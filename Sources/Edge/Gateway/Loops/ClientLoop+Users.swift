import Channels
import Identity
import Pusher
import Reactor

/// Users on a loop: those whose home it is, those that its sessions are or watch, and the end of all of one's connections.
extension ClientLoop {
    // MARK: To the homes

    /// Tells each home what concerns its users, in the order given: one message a loop.
    func tellHomes(_ requests: [UserRequest]) {
        let loops = hubContext.mailboxes.count
        guard loops > 1 else { return atUserHome(requests, from: number) }
        var perLoop = [[UserRequest]](repeating: [], count: loops)
        for request in requests { perLoop[request.user.home(loops: loops)].append(request) }
        for (target, requests) in perLoop.enumerated() where !requests.isEmpty {
            if target == number {
                atUserHome(requests, from: number)
            } else {
                hubContext.mailboxes[target].post(.users(requests, from: number))
            }
        }
    }

    // MARK: At home

    func atUserHome(_ requests: [UserRequest], from loop: Int) {
        let now = self.loop.now.nanoseconds
        atUserHome { $0.received(requests, from: loop, now: now, &$1) }
    }

    /// The time has come at which somebody may be offline.
    func usersDue() {
        let now = loop.now.nanoseconds
        atUserHome { $0.tick(now: now, &$1) }
    }

    private func atUserHome(_ input: (inout UserHome, inout ContiguousArray<UserHome.Effect>) -> Void) {
        var effects: ContiguousArray<UserHome.Effect> = []
        input(&userHome, &effects)
        // What is performed comes back here in no case.
        for effect in effects {
            switch effect {
            case .answer(let target, let news): tell(news, to: target)
            case .tell(let loops, let news):
                for target in hubContext.mailboxes.indices where loops.contains(loop: target) {
                    tell([news], to: target)
                }
            }
        }
        setUserAlarm()
    }

    private func setUserAlarm() {
        guard let userAlarm, !awaitsUserTurn else { return }
        guard let due = userHome.nextDue else { return userAlarm.unset() }
        if due > loop.now.nanoseconds {
            loop.setDeadline(userAlarm, Instant(nanoseconds: due))
        } else {
            // More is due than is done in one turn; others have theirs first.
            userAlarm.unset()
            awaitsUserTurn = true
            mailbox.post(.usersDue)
        }
    }

    private func tell(_ news: [UserNews], to target: Int) {
        if target == number {
            told(news)
        } else {
            hubContext.mailboxes[target].post(.told(news))
        }
    }

    // MARK: From a home

    func told(_ news: [UserNews]) {
        hub.told(news) { id, frame in connection(id)?.queue(frame) }
    }

    // MARK: Termination

    /// Closes this loop's connections of the user, and those that turn out to be.
    func terminate(_ user: UserKey) {
        // Tokens are of that app's users alone, and other apps' terminations are not kept in mind beside them.
        if apps.app(index: user.app)?.ownsDatabase == true { verifications.terminate(user) }
        for id in hub.sessions(of: user) { connection(id)?.cutOff(.terminated) }
    }

    /// A token was found good or bad.
    func verified(_ id: SessionID, _ result: Result<VerifiedToken, TokenRejection>) {
        let connection = connection(id)
        var user: UserKey?
        if let app = connection?.app, case .success(let token) = result { user = UserKey(token.userID, of: app.index) }
        let code = verifications.end(id, as: user)
        connection?.verified(result, endedBy: code)
    }
}
