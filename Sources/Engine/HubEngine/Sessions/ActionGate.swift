import Bytes
import Pusher
import Sync

/// Users' actions: which are accepted, how many of a session are in flight, and what is answered.
package final class ActionGate {
    /// How long a device that has not signed in is asked to wait. Sign-in takes a round trip or two.
    private static let signinPause = Duration.seconds(1)
    /// How long a device is asked to wait while the hub does not know all revocations.
    private static let revocationPause = Duration.seconds(1)
    /// How long a device with too many actions in flight is asked to wait.
    private static let crowdedPause = Duration.milliseconds(250)

    private let most: Int
    private let identities: Identities

    /// - Parameter most: actions of one session that may be in flight.
    init(most: Int, _ identities: Identities) {
        self.most = most
        self.identities = identities
    }

    /// `sync:action`: applies the action of a session with an identity. What the action means is up to the database.
    func act(_ data: [UInt8], _ session: Session, _ effects: inout SessionEngine.Effects) {
        guard session.app.ownsDatabase else {
            return effects.complain("sync:action needs the app that owns the database; this app does not")
        }
        let envelope: ActionEnvelope
        do throws(ActionError) {
            envelope = try ActionEnvelope.decode(data)
        } catch {
            switch error {
            case .keyless(let message): return effects.complain(message)
            case .invalid(let key, let path, let message, _):
                return answer(.invalid(key: key, path: path.description, message: message), &effects)
            }
        }
        func retry(_ reason: RetryReason, after pause: Duration, _ message: StaticString) {
            answer(.retry(key: envelope.key, reason, after: pause, message: message), &effects)
        }
        guard let identity = session.identity else {
            return retry(.unavailable, after: Self.signinPause, "Sign in first: by pusher:signin or sync:auth")
        }
        guard identities.isRevocationCurrent else {
            return retry(
                .unavailable, after: Self.revocationPause, "the hub has still to learn whose access was revoked")
        }
        guard session.actionsInFlight < most else {
            return retry(
                .busy, after: Self.crowdedPause, "This connection has as many actions under way as it may have")
        }
        session.actionsInFlight += 1
        effects.append(.act(envelope, user: identity.userID))
    }

    /// An action of the session has been answered.
    package func answered(_ answer: ActionAnswer, _ session: Session, _ effects: inout SessionEngine.Effects) {
        session.actionsInFlight -= 1
        self.answer(answer, &effects)
    }

    private func answer(_ answer: ActionAnswer, _ effects: inout SessionEngine.Effects) {
        effects.append(.send(.result(answer)))
    }
}
