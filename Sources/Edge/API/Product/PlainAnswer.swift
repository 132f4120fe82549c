import Bytes
import JSON
import Sync

/// The answer to an action in the form that the apps' REST clients expect: the entity itself on success, otherwise an
/// `error`; beside it `_sync`, which other clients ignore.
enum PlainAnswer {
    /// Writes `{…result, _sync:{status, replayed, positions, numberUsed}}`, or
    /// `{error, code, path, conflict, expected, result, _sync:{key, status, replayed, positions, afterMs, numberUsed}}`.
    ///
    /// `path` is the client's name for the field.
    static func body(of answer: ActionAnswer, to wording: ActionWording) -> [UInt8] {
        answer.json.withUnsafeBytes { json in
            // The JSON is the database's own. If it cannot be parsed, the bare result is better than nothing.
            guard let result = Result(json) else { return [UInt8](json) }
            var writer = ByteWriter(capacity: json.count + 128)
            switch answer.status {
            case .applied, .noop, .partial: result.appendEntity(to: &writer)
            case .conflict, .rejected, .retry: result.appendError(wording, to: &writer)
            }
            return writer.array
        }
    }

    /// The members of a `sync:result`, pointing into its text.
    private struct Result {
        private var members: [(name: StaticString, value: JSONValue)] = []

        private static let names: [StaticString] = [
            "key", "status", "code", "message", "path", "result", "conflict", "positions", "expected", "replayed",
            "afterMs", "numberUsed",
        ]

        init?(_ json: UnsafeRawBufferPointer) {
            do {
                var reader = try JSONObjectReader(json)
                while let member = try reader.next() {
                    guard let name = Self.names.first(where: { member.isNamed($0) }) else { continue }
                    members.append((name, member.value))
                }
            } catch {
                return nil
            }
        }

        func appendEntity(to writer: inout ByteWriter) {
            writer.append("{")
            if let result = value("result"), result.kind == .object {
                let inside = result.bytes.part(1..<result.bytes.count - 1)
                writer.append(inside)
                if inside.contains(where: { $0 > 0x20 }) { writer.append(",") }
            }
            appendSync(["status", "positions", "numberUsed"], to: &writer)
            writer.append("}")
        }

        func appendError(_ wording: ActionWording, to writer: inout ByteWriter) {
            writer.append("{")
            if let message = value("message") { append("error", message, to: &writer) }
            for name in ["code", "path", "conflict", "expected", "result"] as [StaticString] {
                guard let value = value(name) else { continue }
                if writer.count > 1 { writer.append(",") }
                if name.bytes.equals("path"), let path = value.string {
                    writer.append(#""path":"#)
                    writer.append(jsonString: wording.path(ofField: path))
                } else {
                    append(name, value, to: &writer)
                }
            }
            if writer.count > 1 { writer.append(",") }
            appendSync(["key", "status", "positions", "afterMs", "numberUsed"], to: &writer)
            writer.append("}")
        }

        /// Writes `_sync`. `replayed` is always included.
        private func appendSync(_ names: [StaticString], to writer: inout ByteWriter) {
            writer.append(#""_sync":{"replayed":"#)
            writer.append(value("replayed")?.kind == .true ? "true" : "false")
            for name in names {
                guard let value = value(name) else { continue }
                writer.append(",")
                append(name, value, to: &writer)
            }
            writer.append("}")
        }

        private func value(_ name: StaticString) -> JSONValue? {
            members.first { $0.name.bytes.equals(name) }?.value
        }

        private func append(_ name: StaticString, _ value: JSONValue, to writer: inout ByteWriter) {
            writer.append(jsonString: name.bytes)
            writer.append(":")
            writer.append(value.bytes)
        }
    }
}
