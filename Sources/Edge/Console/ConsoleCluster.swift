import Clock
import Gateway
import HTTP
import JSON

/// The hubs with which this one shares ordinary channels, as Redis knows them.
package struct ConsoleCluster: Sendable {
    /// A run of a hub.
    package struct Hub: Sendable {
        /// Its number in this run.
        package let number: String
        /// What it says of itself; empty until it has.
        package let about: String
        /// Since it last said that it lives.
        package let silence: Duration
        /// Whether it is taken for dead; and whether it is the one whose console this is.
        package let isLate, isThisOne: Bool

        /// All of it.
        package init(number: String, about: String, silence: Duration, isLate: Bool, isThisOne: Bool) {
            (self.number, self.about, self.silence) = (number, about, silence)
            (self.isLate, self.isThisOne) = (isLate, isThisOne)
        }
    }

    /// The server and its version.
    package var server = ""
    /// Bytes that it uses, and may use; 0: all that there are.
    package var memory = (used: 0, most: 0)
    /// Of all apps.
    package var channelCount = 0
    /// Webhooks that were not delivered yet.
    package var waitingWebhooks = 0
    /// Since the last beat.
    package var beatAge: Duration?
    /// The hubs.
    package var hubs: [Hub] = []

    /// Nobody is there.
    package init() {}

    var answer: HTTPResponse {
        func age(_ time: Duration?) -> JSONTree {
            time.map { .integer(Int64(clamping: $0.wholeNanoseconds / 1_000)) } ?? .null
        }
        return ConsoleAnswers.object([
            .init("server", .string(server)), .init("memory", .integer(Int64(memory.used))),
            .init("memoryMost", .integer(Int64(memory.most))), .init("channels", .integer(Int64(channelCount))),
            .init("webhooks", .integer(Int64(waitingWebhooks))), .init("beatAge", age(beatAge)),
            .init(
                "hubs",
                .array(
                    hubs.map {
                        .object([
                            .init("number", .string($0.number)), .init("about", .string($0.about)),
                            .init("silence", age($0.silence)), .init("isLate", .bool($0.isLate)),
                            .init("isThisOne", .bool($0.isThisOne)),
                        ])
                    })),
        ])
    }
}
