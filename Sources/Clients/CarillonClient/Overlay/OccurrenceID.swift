import Care
import Crypto
import Foundation

/// The id of a day's reminder, as the hub makes it (`care.occurrence_id`): a push and the local notification of a rule that
/// was made without a network are one on the screen.
enum OccurrenceID {
    /// Carillon's namespace, for rules whose id is not a UUID.
    private static let namespace: [UInt8] = [
        0x8A, 0x9E, 0x3B, 0x52, 0x6A, 0x43, 0x5D, 0x0C, 0x9F, 0x4E, 0x1C, 0x7F, 0x5B, 0xE0, 0xCA, 0x21,
    ]

    /// - Parameter minute: the rule's time of day.
    static func text(rule: String, day: LocalDate, minute: Int) -> String {
        let time = [minute / 60, minute % 60].map { ($0 < 10 ? "0" : "") + String($0) }.joined(separator: ":")
        return text("\(TimeText.text(day))T\(time)", of: rule)
    }

    /// The id of a medication's nth schedule (`care.schedule_id`).
    static func schedule(of medication: String, _ n: Int) -> String { text("schedule/\(n)", of: medication) }

    private static func text(_ name: String, of owner: String) -> String {
        let own = UUID(uuidString: owner).map { withUnsafeBytes(of: $0.uuid) { Array($0) } }
        return NSUUID(uuidBytes: uuid5(own ?? uuid5(namespace, owner), name)).uuidString.lowercased()
    }

    private static func uuid5(_ namespace: [UInt8], _ name: String) -> [UInt8] {
        var bytes = Array(Insecure.SHA1.hash(data: namespace + Array(name.utf8)).prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x50
        bytes[8] = bytes[8] & 0x3F | 0x80
        return bytes
    }
}
