import Bytes
import Pusher
import Sync

/// Names of streams: exactly those are read that are written, each is a name of a channel, and no two users share one.
enum StreamNameProperties {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let result = withView(bytes) { text in
            Result { () throws(StreamNameError) in try StreamName.parse(text) }
        }
        let hasPrefix = StreamForm.allCases.contains { form in withView(bytes) { $0.hasPrefix(form.prefix) } }
        switch result {
        case .success(let name?):
            try hold(name.format().map { [UInt8]($0.utf8) } == bytes, "a name that is not written as it was read")
            try hold(withView(bytes) { ChannelName($0) } != nil, "a name of no channel")
        case .success(nil): try hold(!hasPrefix, "a stream's prefix on an ordinary channel")
        case .failure: try hold(hasPrefix, "refused without a stream's prefix")
        }
        try checkUser(bytes)
    }

    /// Any text is a user's id, if its name is not too long.
    private static func checkUser(_ bytes: [UInt8]) throws(Violation) {
        guard let user = bytes.strictText else { return }
        for form in StreamForm.allCases {
            let stream = StreamID(user: user, topic: "dose_log")
            let name = StreamName(form: form, stream: stream)
            guard let text = name.format() else {
                let isLong = bytes.count + form.prefix.utf8CodeUnitCount + 9 > StreamName.maximumBytes
                // Escapes take three bytes.
                let mayBeLong = bytes.count * 3 + form.prefix.utf8CodeUnitCount + 9 > StreamName.maximumBytes
                try hold(bytes.isEmpty || isLong || mayBeLong, "a user's id that has no name")
                continue
            }
            let again = try succeed("a name of ours") { () throws(StreamNameError) in try StreamName.parse(text) }
            try hold(again == name && again?.stream.user.utf8.elementsEqual(bytes) == true, "another stream's name")
        }
    }
}
