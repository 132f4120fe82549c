import Gateway
import Logging
import Reactor

/// The hub's certificates: logs warnings about them, and re-reads them on SIGHUP.
struct Certificates: Sendable {
    let server: TLSServer
    let metrics: TLSMetrics
    let logger: Logger

    func warn() {
        for warning in server.warnings() { logger.warning("\(warning)") }
    }

    /// Re-reads the files. Connections stay open. If a file is broken, new connections get the old certificates.
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
