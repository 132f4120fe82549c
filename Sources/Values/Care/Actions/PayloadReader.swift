import JSON

/// Reads the members of a payload. Null counts as absent.
package struct PayloadReader {
    private let object: JSONTree
    private let path: String
    private let now: Timestamp

    init(_ object: JSONTree, path: String, now: Timestamp) {
        self.object = object
        self.path = path
        self.now = now
    }

    func has(_ name: String) -> Bool { object[name] != nil }

    func invalid(_ name: String, _ reason: String) -> InvalidAction { InvalidAction("\(path).\(name)", reason) }

    // MARK: Kinds

    /// An object that may have only these members: a misspelt name must not be ignored.
    func object(_ name: String, of members: [String]) throws(InvalidAction) -> PayloadReader {
        guard let value = object[name], case .object(let given) = value else {
            throw invalid(name, "must be an object")
        }
        guard given.allSatisfy({ members.contains($0.name) }) else {
            throw invalid(name, "may have \(members.joined(separator: ", ")), and no more")
        }
        return PayloadReader(value, path: "\(path).\(name)", now: now)
    }

    func string(_ name: String) throws(InvalidAction) -> String? {
        guard let value = object[name] else { return nil }
        guard let text = value.string else { throw invalid(name, "must be a string") }
        return text
    }

    func requiredString(_ name: String) throws(InvalidAction) -> String {
        guard let text = try string(name) else { throw invalid(name, "is required") }
        return text
    }

    func boolean(_ name: String) throws(InvalidAction) -> Bool? {
        guard let value = object[name] else { return nil }
        guard case .bool(let flag) = value else { throw invalid(name, "must be true or false") }
        return flag
    }

    // MARK: Ids

    func identifier(_ name: String) throws(InvalidAction) -> Identifier {
        guard let value = object[name] else { throw invalid(name, "is required") }
        return try Self.identifier(value, path: "\(path).\(name)")
    }

    func identifiers(_ name: String, max: Int) throws(InvalidAction) -> [Identifier] {
        guard case .array(let elements) = object[name] else { throw invalid(name, "must be an array") }
        guard (1...max).contains(elements.count) else { throw invalid(name, "must have 1 to \(max) elements") }
        var identifiers: [Identifier] = []
        for (index, element) in elements.enumerated() {
            identifiers.append(try Self.identifier(element, path: "\(path).\(name)[\(index)]"))
        }
        return identifiers
    }

    private static func identifier(_ value: JSONTree, path: String) throws(InvalidAction) -> Identifier {
        guard let text = value.string else { throw InvalidAction(path, "must be a string") }
        guard (1...Identifier.bytesMax).contains(text.utf8.count) else {
            throw InvalidAction(path, "must have 1 to \(Identifier.bytesMax) bytes")
        }
        return Identifier(text)
    }

    // MARK: Texts

    /// 1 to 500 characters; may be blank.
    func reason(_ name: String) throws(InvalidAction) -> String? { try text(name, max: 500) }

    /// 1 to 4000 characters, not blank.
    func note(_ name: String) throws(InvalidAction) -> String? {
        guard let text = try text(name, max: 4000) else { return nil }
        guard text.unicodeScalars.contains(where: { ![" ", "\t", "\r", "\n"].contains($0) }) else {
            throw invalid(name, "must not be blank")
        }
        return text
    }

    private func text(_ name: String, max: Int) throws(InvalidAction) -> String? {
        guard let text = try string(name) else { return nil }
        guard (1...max).contains(text.unicodeScalars.count) else {
            throw invalid(name, "must have 1 to \(max) characters")
        }
        return text
    }

    // MARK: Times

    func day(_ name: String) throws(InvalidAction) -> LocalDate? {
        guard let text = try string(name) else { return nil }
        guard let day = TimeText.day(text) else { throw invalid(name, "must be a day such as 2025-11-14") }
        return day
    }

    /// A time at most a day ahead of now: the clocks of phones may be fast. What lies ahead was now.
    func pastTime(_ name: String) throws(InvalidAction) -> SentTime? {
        guard let value = object[name] else { return nil }
        let time = try Self.time(value, path: "\(path).\(name)")
        guard time.instant <= now.adding(seconds: 86_400) else { throw invalid(name, "lies in the future") }
        return time.limited(to: now)
    }

    /// ISO 8601 with an offset, or epoch milliseconds; of the years 2000 to 2100.
    static func time(_ value: JSONTree, path: String) throws(InvalidAction) -> SentTime {
        let time = try timeOfAnyYear(value, path: path)
        guard Timestamp.accepted.contains(time.instant) else {
            throw InvalidAction(path, "must be of the years 2000 to 2100")
        }
        return time
    }

    /// A device's time; nil where its clock has lost the time: it is 90 days old, or of no year in which anybody acts.
    static func believedTime(_ value: JSONTree, path: String, now: Timestamp) throws(InvalidAction) -> SentTime? {
        let time = try timeOfAnyYear(value, path: path)
        let isBelieved =
            Timestamp.accepted.contains(time.instant) && time.instant > now.adding(seconds: -believedSeconds)
        return isBelieved ? time : nil
    }

    private static let believedSeconds = 7_776_000

    /// When an intake was, by the `takenAt` of its payload, else by the device's clock; now where that is not a time.
    package static func takenAt(_ payload: JSONTree, clientTime: JSONTree, now: Timestamp) -> SentTime {
        let sent =
            if let given = payload["takenAt"] { try? time(given, path: "takenAt") } else {
                try? believedTime(clientTime, path: "clientTime", now: now)
            }
        return sent?.limited(to: now) ?? SentTime(now)
    }

    private static func timeOfAnyYear(_ value: JSONTree, path: String) throws(InvalidAction) -> SentTime {
        let time: SentTime?
        switch value {
        case .string(let text): time = TimeText.time(text).map { SentTime($0.instant, utcOffset: $0.utcOffset) }
        case .number(let text):
            let isNegative = text.hasPrefix("-")
            guard text.utf8.dropFirst(isNegative ? 1 : 0).allSatisfy({ (0x30...0x39).contains($0) }) else {
                throw InvalidAction(path, "must be an integer number of milliseconds")
            }
            let scaled = value.integer.map { $0.multipliedReportingOverflow(by: 1000) }
            let microseconds = scaled.flatMap { $0.overflow ? nil : $0.partialValue }
            time = SentTime(Timestamp(microseconds: microseconds ?? (isNegative ? .min : .max)))
        default: time = nil
        }
        guard let time else {
            throw InvalidAction(path, "must be a time such as 2025-11-14T08:00:00-05:00")
        }
        return time
    }
}
