import FoundationEssentials
import JSON

/// A configuration file: one JSON object, in which `{"jwt":{"issuer":"x"}}` sets `jwt.issuer`.
struct SettingsFile {
    /// Larger files are refused.
    static let bytesMax = 1 << 20

    let path: String
    /// Dotted key to the text of the value; JSON values other than texts in their JSON form.
    let values: [String: String]
    private let text: String

    /// - Throws: a failure that names the file, and the line, where it cannot be read, is no JSON object, or has a name twice.
    init(path: String) throws(Failure) {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Failure("configuration file \(path): cannot be read; does it exist, and may this user read it?")
        }
        guard data.count <= Self.bytesMax else {
            throw Failure("configuration file \(path): larger than \(Self.bytesMax) bytes")
        }
        if let fault = JSONFault(in: data) { throw Failure("configuration file \(path): not JSON: \(fault)") }
        let text = String(decoding: data, as: UTF8.self)
        guard let tree = try? JSONTree(text), case .object(let members) = tree else {
            throw Failure("configuration file \(path): not a JSON object, such as {\"listen\": \"127.0.0.1:6001\"}")
        }
        self.path = path
        self.text = text
        var values: [String: String] = [:]
        Self.flatten(members, under: "", into: &values)
        self.values = values
    }

    /// A line for each key that is none of a setting.
    func problems(rows: [SettingRow]) -> [String] {
        let known = Set(rows.map(\.key))
        return values.keys.filter { !known.contains($0) }.sorted().map { key in
            let shown = SettingMask.shown(ofUnknown: key, values[key] ?? "")
            return "file \(place(of: key)): unknown key \(key) (value \(shown))\(nearest(to: key, among: Array(known)))"
        }
    }

    /// The key with its line, as "line 4 jwt.issuer".
    func name(of key: String) -> String {
        line(of: key).map { "line \($0) \(key)" } ?? key
    }

    private func place(of key: String) -> String {
        line(of: key).map { "\(path) line \($0)" } ?? path
    }

    /// The line of a key, from 1, where it is found exactly once.
    private func line(of key: String) -> Int? {
        let leaf = "\"\(key.split(separator: ".").last ?? "")\""
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let hits = lines.indices.filter { lines[$0].contains(leaf) }
        return hits.count == 1 ? hits[0] + 1 : nil
    }

    private static func flatten(
        _ object: [JSONTree.Member], under prefix: String, into values: inout [String: String]
    ) {
        for member in object {
            let key = prefix + member.name
            switch member.value {
            case .object(let members): flatten(members, under: key + ".", into: &values)
            case .string(let text): values[key] = text
            case .array(let elements):
                let texts = elements.compactMap(\.string)
                values[key] =
                    texts.count == elements.count ? texts.joined(separator: ",") : member.value.canonicalText
            default: values[key] = member.value.canonicalText
            }
        }
    }
}
