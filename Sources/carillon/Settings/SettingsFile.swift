import FoundationEssentials
import JSON

/// A configuration file: one JSON object. `{"jwt":{"issuer":"x"}}` sets `jwt.issuer`.
struct SettingsFile {
    static let bytesMax = 1 << 20

    let path: String
    /// The text of each value by its dotted key. JSON values other than strings are in JSON form.
    private(set) var texts: [String: String] = [:]
    private let content: String

    /// - Throws: a failure that names file and line when the file is unreadable, no JSON object, or has a repeated name.
    init(path: String) throws(Failure) {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Failure("configuration file \(path): cannot be read; does it exist, and may this user read it?")
        }
        guard data.count <= Self.bytesMax else {
            throw Failure("configuration file \(path): larger than \(Self.bytesMax) bytes")
        }
        self.path = path
        content = String(decoding: data, as: UTF8.self)
        do throws(JSONFault) {
            guard case .object(let members) = try JSONFault.tree(of: data) else {
                throw JSONFault("not a JSON object, such as {\"listen\": \"127.0.0.1:6001\"}")
            }
            add(members, under: "")
        } catch {
            throw Failure("configuration file \(path): \(error)")
        }
    }

    /// A line for each key that is not a setting.
    func problems() -> [String] {
        let known = SettingsTable.all.map(\.key)
        return texts.filter { !known.contains($0.key) }.sorted { $0.key < $1.key }.map { key, text in
            let shown = SettingMask.shown(ofUnknown: key, text)
            let unknown = "unknown key \(key) (value \(shown))\(nearest(to: key, among: known))"
            return
                "file \(path)\(line(of: key).map { " line \($0)" } ?? ""): \(RemovedSettings.problem(key) ?? unknown)"
        }
    }

    /// The key with its line, as "line 4 jwt.issuer".
    func name(of key: String) -> String {
        line(of: key).map { "line \($0) \(key)" } ?? key
    }

    /// The line of a key, from 1, if it occurs on exactly one.
    private func line(of key: String) -> Int? {
        let leaf = "\"\(key.split(separator: ".").last ?? "")\""
        let lines = content.split(separator: "\n", omittingEmptySubsequences: false)
        let hits = lines.indices.filter { lines[$0].contains(leaf) }
        return hits.count == 1 ? hits[0] + 1 : nil
    }

    private mutating func add(_ object: [JSONTree.Member], under prefix: String) {
        for member in object {
            switch member.value {
            case .object(let members): add(members, under: prefix + member.name + ".")
            case .array(let elements) where elements.allSatisfy({ $0.string != nil }):
                texts[prefix + member.name] = elements.compactMap(\.string).joined(separator: ",")
            case let value: texts[prefix + member.name] = value.string ?? value.canonicalText
            }
        }
    }
}
