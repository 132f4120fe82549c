import Foundation

// What the files for Apple's systems use of the client's others which need packages: Tests/apple has none.

public actor CarillonClient {
    public func start() throws {}
    public func suspend() {}
    public func wake() {}
}

struct KeyPins: Sendable {
    init(_ pins: [Data]) throws {}
    var isEmpty: Bool { true }
    func fit(certificate: [UInt8]) -> Bool { true }
}
