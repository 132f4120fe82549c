import Care
import Foundation
import JSON

/// A JSON value of an app: the payload of an action, or a part of it.
public enum CarillonPayload: Sendable, Equatable {
    case null
    case bool(Bool)
    case int(Int)
    case double(Double)
    case string(String)
    case array([CarillonPayload])
    case object([String: CarillonPayload])

    /// A time, as actions want it.
    public static func date(_ date: Date) -> CarillonPayload { .string(TimeText.text(Timestamp(date))) }

    var tree: JSONTree {
        switch self {
        case .null: .null
        case .bool(let value): .bool(value)
        case .int(let value): .integer(Int64(value))
        case .double(let value): value.isFinite ? .number("\(value)") : .null
        case .string(let value): .string(value)
        case .array(let values): .array(values.map(\.tree))
        case .object(let members):
            .object(members.sorted { $0.key < $1.key }.map { JSONTree.Member($0.key, $0.value.tree) })
        }
    }

    init(_ tree: JSONTree) {
        switch tree {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let text): self = Int(text).map { .int($0) } ?? .double(Double(text) ?? 0)
        case .string(let value): self = .string(value)
        case .array(let values): self = .array(values.map { CarillonPayload($0) })
        case .object(let members):
            self = .object(Dictionary(members.map { ($0.name, CarillonPayload($0.value)) }) { _, last in last })
        }
    }

    /// The member of an object; nil where there is none.
    public subscript(name: String) -> CarillonPayload? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }

    /// The characters of a string; otherwise nil.
    public var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }
}

extension CarillonPayload: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    /// A string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A whole number.
    public init(integerLiteral value: Int) { self = .int(value) }
    /// True or false.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension CarillonPayload: ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral {
    /// An array.
    public init(arrayLiteral elements: CarillonPayload...) { self = .array(elements) }
    /// An object.
    public init(dictionaryLiteral elements: (String, CarillonPayload)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
    /// Null.
    public init(nilLiteral: ()) { self = .null }
}
