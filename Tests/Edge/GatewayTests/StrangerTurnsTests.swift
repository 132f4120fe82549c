import HubEngine
import Reactor
import Testing

@testable import Gateway

@Suite struct StrangerTurnsTests {
    private func address(_ last: Int) throws -> PeerAddress { try #require(PeerAddress("192.0.2.\(last)")) }

    private func id(_ slot: Int) -> SessionID { SessionID(slot: UInt32(slot), generation: 1) }

    @Test func oneOfEachAddressHasItsTurn() throws {
        var turns = StrangerTurns()
        for slot in 1...1_000 { turns.append(id(slot), of: try address(1)) }
        turns.append(id(2_001), of: try address(2))
        turns.append(id(2_002), of: try address(2))
        turns.append(id(3_001), of: try address(3))
        #expect(turns.take() == [id(1), id(2_001), id(3_001)])
        #expect(turns.take() == [id(2), id(2_002)])
        #expect(turns.take() == [id(3)])
        for _ in 4...1_000 { _ = turns.take() }
        #expect(turns.isEmpty && turns.take().isEmpty)
    }

    @Test func aTurnIsOfSoManyAddresses() throws {
        var turns = StrangerTurns()
        let most = StrangerTurns.addressesPerTickMax
        for slot in 1...most + 1 { turns.append(id(slot), of: try address(slot)) }
        #expect(turns.take() == (1...most).map { id($0) })
        turns.append(id(100), of: try address(1))
        #expect(turns.take() == [id(most + 1), id(100)])
    }
}
