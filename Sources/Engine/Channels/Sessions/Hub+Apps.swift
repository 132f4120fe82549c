import Pusher

/// Apps that take the place of others while connections are open.
extension Hub {
    /// The session's app is another value from here on; nil: it is served no more.
    ///
    /// - Parameter keyIsServed: whether the key that the client knows is an app's still, another one's where its own has
    ///   gone: then it is to come back, which it never would after 4001.
    package func replaceApp(
        of session: Session, by app: App?, keyIsServed: Bool = false, _ effects: inout Effects
    ) {
        guard let app else { return effects.append(.close(keyIsServed ? .reconnect : .unknownApp)) }
        let old = session.app
        session.app = app
        guard app.features.isEnabled else { return effects.append(.close(.appDisabled)) }
        if app.features.watchlists != old.features.watchlists {
            if !app.features.watchlists {
                departed(session, &effects)
            } else {
                // Whom the user watches was not kept: that comes with the next signin.
                welcome(session, &effects)
            }
        }
        // The time runs from the day on that the app has it, not from a beginning that nobody had been told of.
        if old.features.authorizationDeadline == nil, let time = session.authorizationTime,
            session.identity == nil, !session.isAuthorized
        {
            effects.append(.watchIdentity(after: time))
        }
    }
}
