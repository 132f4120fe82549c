import Bytes
import Synchronization

/// What a kind of sink makes of messages for many sessions, such as frames.
package protocol SharedEncoding: AnyObject, Sendable {
    init(_ messages: consuming Messages)
    /// The messages again, for a sink of another kind.
    var messages: Messages { get }
}

/// Messages that go to many sessions. Any thread. Each kind of sink makes its form once. The first form replaces the
/// messages, so that a hub with one kind of sink keeps them once.
package final class SharedMessages: Sendable {
    private enum State {
        case messages(Messages)
        case formed(any SharedEncoding, others: [any SharedEncoding])
        /// While a form is made, and nobody else looks.
        case taken
    }

    private let state: Mutex<State>
    /// Bytes of the messages.
    package let byteCount: Int

    /// Takes the messages over. A sink's form is made when it first asks.
    package init(_ messages: consuming Messages) {
        byteCount = messages.byteCount
        state = Mutex(.messages(messages))
    }

    /// The messages in the form of one kind of sink.
    package func form<Form: SharedEncoding>(_ type: Form.Type = Form.self) -> Form {
        state.withLock { state in
            switch exchange(&state, with: .taken) {
            case .messages(let messages):
                let form = Form(consume messages)
                state = .formed(form, others: [])
                return form
            case .formed(let first, let others):
                let known = first as? Form ?? others.lazy.compactMap { $0 as? Form }.first
                let form = known ?? Form(first.messages)
                state = .formed(first, others: known == nil ? others + [form] : others)
                return form
            case .taken:
                preconditionFailure("asked for by what makes it")
            }
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
