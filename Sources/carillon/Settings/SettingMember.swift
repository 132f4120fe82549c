import JSON

/// A member of a JSON object in a setting: its name, its syntax, and its target in a `Root`. Errors say where and what.
struct SettingMember<Root>: Sendable {
    let name: String
    /// Reads the value. Nil means that a required member is missing.
    ///
    /// - Parameter object: names the object, for people.
    let read: @Sendable (_ value: JSONTree?, _ object: String, inout Root) throws(BadValue) -> Void
    let isRequired: Bool

    /// - Parameter read: an error without a `part` is attributed to this member.
    init(
        _ name: String, isRequired: Bool = false,
        read: @escaping @Sendable (JSONTree?, String, inout Root) throws(BadValue) -> Void
    ) {
        (self.name, self.isRequired) = (name, isRequired)
        self.read = { value, object, root throws(BadValue) in
            do throws(BadValue) {
                try read(value, object, &root)
            } catch {
                throw BadValue(
                    all: error.all.map { $0.part == nil ? BadValue($0.mustBe, of: "\(object), \"\(name)\"") : $0 })
            }
        }
    }

    /// A value in the syntax of settings. Scalars may be JSON numbers and booleans, except for texts.
    init<Value>(
        _ name: String, _ target: any WritableKeyPath<Root, Value> & Sendable, isRequired: Bool = false,
        _ form: Form<Value>
    ) {
        self.init(name, isRequired: isRequired) { value, _, root throws(BadValue) in
            do throws(BadValue) {
                root[keyPath: target] = try form.parse(value?.plainText(orScalar: form.takes != "text") ?? "")
            } catch {
                throw value == nil ? BadValue("there: \(error.mustBe)") : error
            }
        }
    }
}

extension JSONTree {
    /// Reads an object.
    ///
    /// - Parameters:
    ///   - object: names the object, for people.
    ///   - better: its better name, once its first member is known.
    func read<Root>(
        _ members: [SettingMember<Root>], _ object: String, into root: inout Root,
        better: (Root) -> String? = { _ in nil }
    ) throws(BadValue) {
        guard case .object(let given) = self else { throw BadValue("a JSON object", of: object) }
        let names = members.map(\.name)
        var bad = BadValues()
        for unknown in given.map(\.name).sorted() where !names.contains(unknown) {
            let known = "one of the members \(names.joined(separator: ", "))\(nearest(to: unknown, among: names))"
            bad.collect { () throws(BadValue) in
                throw BadValue(
                    RemovedSettings.memberAdvice[unknown].map { "left out: \($0)" } ?? known,
                    of: "\(object), \"\(unknown.prefix(40))\",")
            }
        }
        for (index, member) in members.enumerated() {
            let value = given.first { $0.name == member.name }?.value
            guard value != nil || member.isRequired else { continue }
            bad.collect { () throws(BadValue) in
                try member.read(value, (index > 0 ? better(root) : nil) ?? object, &root)
            }
        }
        try bad.end()
    }

    /// A string's text, or the text of a number or boolean if `orScalar`.
    fileprivate func plainText(orScalar: Bool) -> String? {
        switch self {
        case .string(let text): text
        case .bool, .number: orScalar ? integer.map { String($0) } ?? canonicalText : nil
        case .null, .array, .object: nil
        }
    }
}
