import Foundation

/// One application as Pusher knows it: its clients name the key, its backend signs with the secret.
struct ApplicationSettings: Sendable, Hashable {
    /// Number or short name in the paths of the HTTP API.
    let id: String
    let key: String
    let secret: String
    /// For people; the id where none was given.
    let name: String
}

extension ApplicationSettings {
    /// Applications one hub serves at most.
    static let countMax = 1000

    /// Reads `[{"id":"1","key":"…","secret":"…","name":"…"}]`. An id may be a number.
    static let list: @Sendable (String) throws(BadValue) -> [ApplicationSettings] = { text throws(BadValue) in
        guard let array = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]] else {
            throw BadValue(#"a JSON array such as [{"id":"1","key":"app-key","secret":"app-secret"}]"#)
        }
        var apps: [ApplicationSettings] = []
        for (index, object) in array.enumerated() {
            apps.append(try ApplicationSettings(object, place: "application \(index + 1)"))
        }
        guard apps.count <= countMax else { throw BadValue("at most \(countMax) applications") }
        guard Set(apps.map(\.id)).count == apps.count, Set(apps.map(\.key)).count == apps.count else {
            throw BadValue("applications whose ids and keys all differ")
        }
        return apps
    }

    private init(_ object: [String: Any], place: String) throws(BadValue) {
        if let unknown = object.keys.sorted().first(where: { !["id", "key", "secret", "name"].contains($0) }) {
            throw BadValue("applications of id, key, secret and name only (\(place) has \"\(unknown)\")")
        }
        func member(_ name: String) throws(BadValue) -> String {
            if let text = object[name] as? String, !text.isEmpty { return text }
            if name == "id", let number = object[name] as? Int { return String(number) }
            throw BadValue("applications that each have a text \"\(name)\" (\(place) has none)")
        }
        id = try member("id")
        key = try member("key")
        secret = try member("secret")
        name = object["name"] as? String ?? id
        for part in [id, key] {
            // Both stand in paths and before the colon of a signature.
            guard part.utf8.count <= 64, part.utf8.allSatisfy({ isNameByte($0) }) else {
                throw BadValue("applications whose id and key are letters, digits, - and _ (\(place))")
            }
        }
    }

    /// The list as JSON with each secret replaced, for people.
    static func masked(_ text: String) -> String {
        guard let apps = try? list(text) else { return SettingMask.hidden }
        let objects = apps.map { #"{"id":"\#($0.id)","key":"\#($0.key)","secret":"\#(SettingMask.hidden)"}"# }
        return "[" + objects.joined(separator: ",") + "]"
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
