import JSON

/// The revisions that a device had seen: `{rev}` for one entity, `{"<id>": {rev}}` for several. Other members are ignored.
package struct SeenRevisions: Sendable {
    private let base: JSONTree?

    /// Reads an envelope's `base`.
    package init(_ base: JSONTree?) throws(InvalidAction) {
        self.base = base
        guard let base else { return }
        guard case .object(let members) = base else { throw InvalidAction("base", "must be an object") }
        if let rev = base["rev"], !rev.isObject {
            try Self.check(rev)
        } else {
            for member in members { if let rev = member.value["rev"] { try Self.check(rev) } }
        }
    }

    /// The revision of `dose` that was seen; nil when unknown.
    package func rev(of dose: Identifier) -> Int64? {
        guard let base else { return nil }
        if let rev = base["rev"]?.integer { return rev }
        return base[dose.text]?["rev"]?.integer
    }

    private static func check(_ rev: JSONTree) throws(InvalidAction) {
        guard let number = rev.integer, (0...9_007_199_254_740_992).contains(number) else {
            throw InvalidAction("base", "must name revisions, which are integers")
        }
    }
}
