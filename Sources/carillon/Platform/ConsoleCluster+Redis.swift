import Console
import Redis
import Shared

extension ConsoleCluster {
    /// Asks Redis, by a connection of its own. Blocks the thread.
    init(asking settings: SharedSettings, for shared: SharedRedis) throws {
        // What is wrong is said on the page.
        let found = try HubGroup.ask(settings, RedisLog(LogOutput.logger("carillon", level: .critical, format: .text)))
        self.init()
        (server, memory) = (found.serverVersion, found.memory)
        (channelCount, waitingWebhooks, beatAge) = (found.channelCount, found.waitingWebhooks, found.beatAge)
        hubs = found.members.map {
            Hub(
                number: $0.number, about: $0.about, silence: $0.silence, isLate: $0.silence > settings.lease,
                isThisOne: $0.number == "\(shared.presentHub.number)")
        }
    }
}
