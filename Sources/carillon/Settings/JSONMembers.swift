import Foundation

/// The members of a JSON object in a setting, each read as what it must be. Errors say where and what.
struct JSONMembers {
    /// Which object it is, for people.
    let place: String
    private let object: [String: Any]

    /// - Parameter allowed: the names that members may have.
    init(_ value: Any, _ place: String, allowed: [String]) throws(BadValue) {
        guard let object = value as? [String: Any] else { throw BadValue("a JSON object", of: place) }
        self.place = place
        self.object = object
        if let unknown = object.keys.sorted().first(where: { !allowed.contains($0) }) {
            throw BadValue(
                "one of the members \(allowed.joined(separator: ", "))\(nearest(to: unknown, among: allowed))",
                of: "\(place), \"\(unknown.prefix(40))\",")
        }
    }

    private init(_ object: [String: Any], _ place: String) {
        (self.object, self.place) = (object, place)
    }

    /// The same object by a better name.
    func called(_ place: String) -> JSONMembers { JSONMembers(object, place) }

    /// The error of a member that is something else.
    func bad(_ name: String, _ mustBe: String) -> BadValue { BadValue(mustBe, of: "\(place), \"\(name)\"") }

    // MARK: Texts

    /// A text of so many bytes; nil where there is none.
    func text(_ name: String, _ bytes: ClosedRange<Int>) throws(BadValue) -> String? {
        guard let value = object[name] else { return nil }
        guard let text = value as? String, bytes.contains(text.utf8.count) else {
            throw bad(name, "a text of \(bytes.lowerBound) to \(bytes.upperBound) bytes")
        }
        return text
    }

    /// A text that there must be.
    func required(_ name: String, _ bytesMax: Int) throws(BadValue) -> String {
        guard let text = try text(name, 1...bytesMax) else {
            throw bad(name, "there: a text of 1 to \(bytesMax) bytes")
        }
        return text
    }

    /// A name that there must be, which stands in paths and before the colon of a signature.
    func name(_ name: String, orNumber: Bool = false) throws(BadValue) -> String {
        if orNumber, let number = number(name), number >= 0 { return String(number) }
        let text = try required(name, 64)
        guard text.utf8.allSatisfy(isNameByte) else { throw bad(name, "letters, digits, - and _") }
        return text
    }

    // MARK: Numbers

    /// A whole number within bounds; nil where there is none.
    func count(_ name: String, _ bounds: ClosedRange<Int>) throws(BadValue) -> Int? {
        guard object[name] != nil else { return nil }
        guard let number = number(name), bounds.contains(number) else {
            throw bad(name, "a whole number from \(bounds.lowerBound) to \(bounds.upperBound)")
        }
        return number
    }

    /// A number of bytes, or a text such as `64KiB`; nil where there is none.
    func bytes(_ name: String, _ bounds: ClosedRange<Int>) throws(BadValue) -> Int? {
        try read(name, SettingValues.bytes(bounds))
    }

    /// A number of seconds, or a text such as `30s`; nil where there is none.
    func duration(_ name: String, _ bounds: ClosedRange<Duration>) throws(BadValue) -> Duration? {
        try read(name, SettingValues.duration(bounds))
    }

    /// `true` or `false`; nil where there is none.
    func flag(_ name: String) throws(BadValue) -> Bool? {
        guard let value = object[name] else { return nil }
        guard let flag = value as? NSNumber, isFlag(flag) else { throw bad(name, "true or false") }
        return flag.boolValue
    }

    private func read<Value>(
        _ name: String, _ parse: (String) throws(BadValue) -> Value
    ) throws(BadValue) -> Value? {
        guard let value = object[name] else { return nil }
        let text = (value as? String) ?? number(name).map { String($0) } ?? ""
        do throws(BadValue) {
            return try parse(text)
        } catch {
            throw bad(name, error.mustBe)
        }
    }

    private func number(_ name: String) -> Int? {
        guard let number = object[name] as? NSNumber, !isFlag(number) else { return nil }
        return Int(exactly: number.doubleValue)
    }

    /// Whether it was `true` or `false`: as a number it would be 1 or 0.
    private func isFlag(_ number: NSNumber) -> Bool {
        String(cString: number.objCType) == "c" || String(cString: number.objCType) == "B"
    }

    // MARK: Objects

    /// An object; nil where there is none.
    func object(_ name: String, allowed: [String]) throws(BadValue) -> JSONMembers? {
        guard let value = object[name] else { return nil }
        return try JSONMembers(value, "\(place), \(name)", allowed: allowed)
    }

    /// An array of objects; empty where there is none.
    func objects(_ name: String, atMost countMax: Int, allowed: [String]) throws(BadValue) -> [JSONMembers] {
        guard let value = object[name] else { return [] }
        guard let array = value as? [Any], array.count <= countMax else {
            throw bad(name, "an array of at most \(countMax) objects")
        }
        var objects: [JSONMembers] = []
        for (index, value) in array.enumerated() {
            objects.append(try JSONMembers(value, "\(place), \(name) \(index + 1)", allowed: allowed))
        }
        return objects
    }

    /// An array of some of these words, one at least, each once.
    func words(_ name: String, of words: [String]) throws(BadValue) -> [String] {
        guard let array = object[name] as? [String], !array.isEmpty, Set(array).count == array.count,
            array.allSatisfy(words.contains)
        else { throw bad(name, "an array of some of " + words.joined(separator: ", ")) }
        return array
    }

    /// An object of texts, in the order of their names; empty where there is none.
    func texts(_ name: String, atMost countMax: Int) throws(BadValue) -> [(name: String, text: String)] {
        guard let value = object[name] else { return [] }
        guard let texts = value as? [String: String], texts.count <= countMax else {
            throw bad(name, "an object of at most \(countMax) texts")
        }
        return texts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

private func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
        true
    default: false
    }
}
