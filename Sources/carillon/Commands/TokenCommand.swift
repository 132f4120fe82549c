import ArgumentParser
import FoundationEssentials
import Glibc

/// `carillon token`: prints a token that a development hub accepts.
struct TokenCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Print a token (JWT) for a user of a development hub.",
        discussion: "It signs with the secret of `carillon dev`. In production, your backend signs tokens.")

    @Option(help: "Id of the user: any text.")
    var user: String

    @Option(help: "Folder of `carillon dev`.")
    var dir = ".carillon"

    @Option(help: "How long the token is valid: 90s, 15m, 12h, or seconds.")
    var expiresIn = "12h"

    func run() throws {
        guard let lifetime = Form.duration(expiresIn), lifetime > .zero else {
            throw Failure("--expires-in \(expiresIn): a time such as 90s, 15m or 12h is needed")
        }
        let hub = try DevelopmentFolder.find(dir).hub()
        say(
            try DevelopmentToken(hub: hub, user: user, lifetime: lifetime, now: Date()).signedAtOnce(
                secret: hub.jwtSecret))
    }
}
