import JSON

/// The members of a JSON object in a setting, each read as what it must be. Errors say where and what.
struct JSONMembers {
    /// Which object it is, for people.
    let place: String
    private let members: [JSONTree.Member]

    /// - Parameter allowed: the names that members may have.
    init(_ value: JSONTree, _ place: String, allowed: [String]) throws(BadValue) {
        guard case .object(let members) = value else { throw BadValue("a JSON object", of: place) }
        self.place = place
        self.members = members
        if let unknown = members.map(\.name).sorted().first(where: { !allowed.contains($0) }) {
            throw BadValue(
                "one of the members \(allowed.joined(separator: ", "))\(nearest(to: unknown, among: allowed))",
                of: "\(place), \"\(unknown.prefix(40))\",")
        }
    }

    private init(_ members: [JSONTree.Member], _ place: String) {
        (self.members, self.place) = (members, place)
    }

    private subscript(name: String) -> JSONTree? { members.first { $0.name == name }?.value }

    /// The same object by a better name.
    func called(_ place: String) -> JSONMembers { JSONMembers(members, place) }

    /// The error of a member that is something else.
    func bad(_ name: String, _ mustBe: String) -> BadValue { BadValue(mustBe, of: "\(place), \"\(name)\"") }

    // MARK: Texts

    /// A text of so many bytes; nil where there is none.
    func text(_ name: String, _ bytes: ClosedRange<Int>) throws(BadValue) -> String? {
        guard let value = self[name] else { return nil }
        guard let text = value.string, bytes.contains(text.utf8.count) else {
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
        guard self[name] != nil else { return nil }
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
        guard let value = self[name] else { return nil }
        guard case .bool(let flag) = value else { throw bad(name, "true or false") }
        return flag
    }

    private func read<Value>(
        _ name: String, _ parse: (String) throws(BadValue) -> Value
    ) throws(BadValue) -> Value? {
        guard let value = self[name] else { return nil }
        let text = value.string ?? number(name).map { String($0) } ?? ""
        do throws(BadValue) {
            return try parse(text)
        } catch {
            throw bad(name, error.mustBe)
        }
    }

    private func number(_ name: String) -> Int? {
        self[name]?.integer.map { Int($0) }
    }

    // MARK: Objects

    /// An object; nil where there is none.
    func object(_ name: String, allowed: [String]) throws(BadValue) -> JSONMembers? {
        guard let value = self[name] else { return nil }
        return try JSONMembers(value, "\(place), \(name)", allowed: allowed)
    }

    /// An array of objects; empty where there is none.
    func objects(_ name: String, atMost countMax: Int, allowed: [String]) throws(BadValue) -> [JSONMembers] {
        guard let value = self[name] else { return [] }
        guard case .array(let array) = value, array.count <= countMax else {
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
        guard case .array(let array) = self[name], !array.isEmpty else { throw bad(name, mustBe(words)) }
        let given = array.compactMap(\.string)
        guard Set(given).count == array.count, given.allSatisfy(words.contains) else { throw bad(name, mustBe(words)) }
        return given
    }

    private func mustBe(_ words: [String]) -> String {
        "an array of some of " + words.joined(separator: ", ")
    }

    /// An object of texts, in the order of their names; empty where there is none.
    func texts(_ name: String, atMost countMax: Int) throws(BadValue) -> [(name: String, text: String)] {
        guard let value = self[name] else { return [] }
        guard case .object(let members) = value, members.count <= countMax else {
            throw bad(name, "an object of at most \(countMax) texts")
        }
        let texts = members.compactMap { member in member.value.string.map { (name: member.name, text: $0) } }
        guard texts.count == members.count else { throw bad(name, "an object of at most \(countMax) texts") }
        return texts.sorted { $0.name < $1.name }
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
