import Crypto
import Foundation

/// Encrypts what is kept of a person, or leaves it as it is.
///
/// AES-256-GCM: a nonce for each value, and its place (table, column and all other columns of its row) as authenticated
/// data. So a value that was changed, or moved to another row, is found, and so is a row whose other columns were changed.
struct Vault: Sendable {
    private let keys: [UInt32: SymmetricKey]
    /// The key that new values get; nil: values are not encrypted.
    let current: UInt32?
    /// Reads what an older version has written: values that are not encrypted, or whose place is their row's key alone.
    private(set) var isOld = false

    static let open = Vault(keys: [:], current: nil)

    /// How values of an encrypted store are sealed: the store tells it.
    static let version: UInt32 = 2
    static let sealing = "\(version)"

    private init(keys: [UInt32: SymmetricKey], current: UInt32?) {
        self.keys = keys
        self.current = current
    }

    /// The keys of a key store. Where there is none, the first one is made, or, for a store that has been encrypted, it
    /// throws: what is missing for a moment must not be replaced.
    ///
    /// Worst interleaving: two stores find no key, and each makes one. Each adds the key of number 1; the second is not
    /// kept, and its maker reads the first.
    init(_ store: any KeyStore, isFirst: Bool = false) throws {
        var found = try store.keys()
        if found.isEmpty, isFirst { found = try store.add(Self.newKey(), number: 1) }
        guard found.values.allSatisfy({ $0.count == 32 }), let newest = found.keys.max() else {
            throw CarillonError.tampered
        }
        self.init(keys: found.mapValues { SymmetricKey(data: $0) }, current: newest)
    }

    /// Adds a key to a key store, for new values. Old ones are read with theirs until they are written again.
    static func rotate(_ store: any KeyStore) throws -> Vault {
        guard let newest = try store.keys().keys.max() else { throw CarillonError.tampered }
        guard newest < .max else { throw CarillonError.invalid("the key store has no number for another key") }
        _ = try store.add(newKey(), number: newest + 1)
        return try Vault(store)
    }

    private static func newKey() -> Data { SymmetricKey(size: .bits256).withUnsafeBytes { Data($0) } }

    /// The keys of this one, to read what an older version has written.
    var old: Vault {
        var old = self
        old.isOld = true
        return old
    }

    /// A text as it is stored: the number of its key, then the sealed box; or the text after a zero.
    func seal(_ text: String, _ place: @autoclosure () -> ValuePlace) throws -> Data {
        guard let current, let key = keys[current] else { return Data([0]) + Data(text.utf8) }
        let box = try AES.GCM.seal(Data(text.utf8), using: key, authenticating: Data(place().text.utf8))
        guard let combined = box.combined else { throw CarillonError.tampered }
        return Self.number(current) + combined
    }

    /// A stored text. Where values are encrypted, one that is not was not written here.
    func open(_ data: Data, _ place: @autoclosure () -> ValuePlace) throws -> String {
        var rest = data
        guard let first = rest.popFirst() else { throw CarillonError.tampered }
        guard first != 0 else {
            guard current == nil || isOld else { throw CarillonError.tampered }
            return String(decoding: rest, as: UTF8.self)
        }
        var number = UInt32(first)
        if first == Self.long, !isOld {
            number = rest.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
            rest = rest.dropFirst(4)
        }
        let known = isOld ? place().old : place().text
        guard let key = keys[number], let box = try? AES.GCM.SealedBox(combined: Data(rest)),
            let text = try? AES.GCM.open(box, using: key, authenticating: Data(known.utf8))
        else { throw CarillonError.tampered }
        return String(decoding: text, as: UTF8.self)
    }

    /// The byte before a number of four bytes. Smaller numbers are one byte.
    private static let long: UInt8 = 255

    private static func number(_ number: UInt32) -> Data {
        guard number >= long else { return Data([UInt8(number)]) }
        return Data([long] + stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) })
    }
}

/// Where a stored value is: its table and column, and the other columns of its row.
struct ValuePlace {
    private let parts: [String]
    /// As older versions had it.
    let old: String

    init(_ table: String, _ column: String, row: [String?], old: String) {
        parts = [table, column] + row.map { $0 ?? "-" }
        self.old = old
    }

    /// Each part after its length: no two places have one text.
    var text: String { parts.map { "\($0.utf8.count) \($0)" }.joined(separator: " ") }
}
