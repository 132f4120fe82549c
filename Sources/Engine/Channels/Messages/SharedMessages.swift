import Bytes
import Synchronization

/// Messages that go to many sessions. Any thread. A sink's form of them is made once and replaces them: memory once.
package final class SharedMessages: Sendable {
    /// What a sink makes of messages: an object of a type of its own.
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

    /// The form of the messages. If there is none yet, `make` makes it and gets the only reference to the messages.
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

/// What all in an ordinary channel are told.
package enum Broadcast: Sendable {
    /// For those who are in it now.
    case passing(Messages)
    /// Also for those who come later.
    case kept(SharedMessages)
}
