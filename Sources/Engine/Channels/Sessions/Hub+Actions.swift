import Bytes
import Pusher
import Sync

extension Hub {
    /// How long a device that has not signed in is asked to wait: it takes a round trip or two.
    private static let signinPause = Duration.seconds(1)
    /// How long a device waits while the hub does not know whose access was revoked.
    private static let revocationPause = Duration.seconds(1)
    /// How long a device with too many actions under way is asked to wait.
    private static let crowdedPause = Duration.milliseconds(250)

    /// `sync:action`: a session with an identity has the action applied. What the action means is the database's to say.
    func act(_ data: [UInt8], _ session: Session, _ effects: inout Effects) {
        guard session.app.ownsDatabase else {
            return complain("sync:action needs the app that owns the database; this app does not", &effects)
        }
        let envelope: ActionEnvelope
        do throws(ActionError) {
            envelope = try ActionEnvelope.decode(data)
        } catch {
            switch error {
            case .keyless(let message): return complain(message, &effects)
            case .invalid(let key, let path, let message, _):
                return answer(.invalid(key: key, path: path.description, message: message), &effects)
            }
        }
        guard let identity = session.identity else {
            return answer(
                .retry(
                    key: envelope.key, .unavailable, after: Self.signinPause,
                    message: "Sign in first: by pusher:signin or sync:auth"), &effects)
        }
        guard isRevocationCurrent else {
            return answer(
                .retry(
                    key: envelope.key, .unavailable, after: Self.revocationPause,
                    message: "the hub has still to learn whose access was revoked"), &effects)
        }
        guard session.actionsInFlight < limits.actionsPerSessionMax else {
            return answer(
                .retry(
                    key: envelope.key, .busy, after: Self.crowdedPause,
                    message: "This connection has as many actions under way as it may have"), &effects)
        }
        session.actionsInFlight += 1
        effects.append(.act(envelope, user: identity.userID))
    }

    /// An action of the session has been answered.
    package func answered(_ answer: ActionAnswer, _ session: Session, _ effects: inout Effects) {
        session.actionsInFlight -= 1
        self.answer(answer, &effects)
    }

    private func answer(_ answer: ActionAnswer, _ effects: inout Effects) {
        effects.append(.send(.result(answer)))
    }
}
