import Bytes
import JSON

/// Why the data of a signin does not name a user.
package enum UserDataError: Error, Equatable, Sendable {
    /// Not a JSON object.
    case malformed(JSONError)
    /// No `id`, or none that is a non-empty string within the limit. pusher-js discards numbers.
    case invalidID
}

/// What an app's backend says about a user: only the id matters to the hub today; the rest is echoed as it came.
package struct UserData: Equatable, Sendable {
    /// The user's id.
    package let id: String

    /// Reads the text of `user_data`.
    package init(_ text: UnsafeRawBufferPointer, limits: PusherLimits = PusherLimits()) throws(UserDataError) {
        var id: JSONValue?
        do throws(JSONError) {
            var reader = try JSONObjectReader(text, maxDepth: limits.depth)
            while let member = try reader.next() {
                guard member.isNamed("id") else { continue }
                guard case .none = id else { throw JSONError(.duplicateKey, at: member.value.offset) }
                id = member.value
            }
        } catch {
            throw .malformed(error)
        }
        guard let text = id?.string, !text.isEmpty, text.utf8.count <= limits.userIDBytes else { throw .invalidID }
        self.id = text
    }

    /// Reads the text of `user_data`.
    package init(_ text: String, limits: PusherLimits = PusherLimits()) throws(UserDataError) {
        var text = text
        let result = text.withUTF8 { bytes in
            Result { () throws(UserDataError) in try UserData(UnsafeRawBufferPointer(bytes), limits: limits) }
        }
        self = try result.get()
    }

    /// Appends the text of a `user_data` that holds an id and nothing else.
    package static func append(id: String, to writer: inout ByteWriter) {
        writer.append(#"{"id":"#)
        writer.append(jsonString: id)
        writer.append("}")
    }
}
