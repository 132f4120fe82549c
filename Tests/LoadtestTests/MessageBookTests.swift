import Testing

@testable import loadtest

@Suite struct MessageBookTests {
    @Test func theLastDeviceCompletesAMessage() {
        var book = MessageBook(channels: 2, perChannel: 2, depth: 4)
        #expect(book.send(on: 1, at: 7) == true)
        #expect(book.outstanding == 1)
        #expect(book.received(by: 2) == MessageBook.Receipt(sentAt: 7, isLast: false))
        #expect(book.received(by: 3) == MessageBook.Receipt(sentAt: 7, isLast: true))
        #expect(book.outstanding == 0)
    }

    @Test func messagesOfAChannelAreToldApartByTheirOrder() {
        var book = MessageBook(channels: 1, perChannel: 2, depth: 2)
        #expect(book.send(on: 0, at: 1) == true)
        #expect(book.send(on: 0, at: 2) == true)
        #expect(book.received(by: 0)?.sentAt == 1)
        #expect(book.received(by: 0)?.sentAt == 2)
        #expect(book.received(by: 1) == MessageBook.Receipt(sentAt: 1, isLast: true))
        #expect(book.received(by: 1) == MessageBook.Receipt(sentAt: 2, isLast: true))
        #expect(book.outstanding == 0)
    }

    @Test func asManyAreOnTheirWayAsMayBe() {
        var book = MessageBook(channels: 1, perChannel: 1, depth: 2)
        #expect(book.send(on: 0, at: 1) == true)
        #expect(book.send(on: 0, at: 2) == true)
        #expect(book.send(on: 0, at: 3) == false)
        #expect(book.outstanding == 2)
        #expect(book.received(by: 0)?.sentAt == 1)
        #expect(book.send(on: 0, at: 4) == true)
        #expect(book.received(by: 0)?.sentAt == 2)
        #expect(book.received(by: 0)?.sentAt == 4)
    }

    @Test func anUnexpectedMessageIsNoReceipt() {
        var book = MessageBook(channels: 2, perChannel: 1, depth: 2)
        #expect(book.received(by: 0) == nil)
        #expect(book.send(on: 1, at: 1) == true)
        #expect(book.received(by: 0) == nil)
        #expect(book.received(by: 1)?.isLast == true)
        #expect(book.received(by: 1) == nil)
    }
}
