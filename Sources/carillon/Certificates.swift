import Gateway
import Logging
import Reactor

/// The hub's certificates: told about when they are read, and read anew on SIGHUP.
struct Certificates: Sendable {
    let server: TLSServer
    let metrics: TLSMetrics
    let logger: Logger

    /// Says in the log what the operator should know about the files.
    func warn() {
        for warning in server.warnings() { logger.warning("\(warning)") }
    }

    /// Reads the files anew. Connections stay; where a file is broken, new ones get what there was before.
    func reload() {
        do throws(TLSError) {
            try server.reload()
            metrics.reloaded(true)
            logger.notice("certificates read anew", metadata: ["files": "\(server.certificates.count)"])
        } catch {
            metrics.reloaded(false)
            logger.error("certificates stay as they were", metadata: ["reason": "\(error)"])
        }
        warn()
    }
}
