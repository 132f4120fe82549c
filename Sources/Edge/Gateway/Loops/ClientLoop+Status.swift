import Channels
import Pusher
import Reactor

/// How the database is doing, as connections are told.
extension ClientLoop {
    /// The database has been out of reach for a while, or is back and all that was missed has been read.
    func degraded(_ isDegraded: Bool) {
        guard isDegraded != self.isDegraded else { return }
        self.isDegraded = isDegraded
        let frame = ServerEvent.statusFrame(isDegraded: isDegraded)
        loop.forEachSource { source in
            guard let connection = source as? Connection, connection.isEstablished,
                connection.session?.app.ownsDatabase == true
            else { return }
            connection.queue(frame)
        }
    }

    /// A connection has just opened: it is told of an outage that goes on.
    func tellStatus(_ connection: Connection) {
        guard isDegraded, connection.session?.app.ownsDatabase == true else { return }
        connection.queue(ServerEvent.statusFrame(isDegraded: true))
    }
}
