import Sync

/// A stream's turn at being asked about, good for one watch of it: a later watch has another serial.
package struct Ticket: Hashable, Sendable {
    package let stream: StreamID
    package let serial: UInt32

    package init(_ stream: StreamID, _ serial: UInt32) {
        self.stream = stream
        self.serial = serial
    }
}
