import Bytes
import Synchronization

/// Messages that many are sent, one after the other or at once. Any thread.
///
/// What a sink makes of them to send them is made once, for the first who gets it, and takes their place here: they cost
/// memory once.
package final class SharedMessages: Sendable {
    /// What a sink makes of messages: an object of a kind of its own.
    package typealias Form = AnyObject & Sendable

    private enum State {
        case messages(Messages)
        case formed(any Form)
        /// While `make` runs, and nobody else looks.
        case taken
    }

    private let state: Mutex<State>
    /// Bytes of the messages.
    package let byteCount: Int

    package init(_ messages: consuming Messages) {
        byteCount = messages.byteCount
        state = Mutex(.messages(messages))
    }

    /// What was made of the messages: by `make`, which gets the only reference to them, if nothing was so far.
    package func form(_ make: (consuming Messages) -> any Form) -> any Form {
        state.withLock { state in
            let form: any Form
            switch exchange(&state, with: .taken) {
            case .messages(let messages): form = make(messages)
            case .formed(let known): form = known
            case .taken: preconditionFailure("asked for by what makes it")
            }
            state = .formed(form)
            return form
        }
    }
}

/// What is told to all in an ordinary channel.
package enum Broadcast: Sendable {
    /// To those who are in it now.
    case passing(Messages)
    /// Also to those who come later.
    case kept(SharedMessages)
}
