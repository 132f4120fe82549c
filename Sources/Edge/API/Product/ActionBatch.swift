import Bytes
import JSON
import Sync

/// The actions of one request, carried out one after the other. If they were sent together, an action that loses its
/// connection could be overtaken by the next. After an action that must be sent again none is carried out, since it may
/// depend on that one.
struct ActionBatch: Sendable {
    /// Why the whole request is refused. Nothing of it is carried out.
    struct Problem: Error {
        let message: String
    }

    /// An action, or the answer to one that could not be decoded.
    enum Step: Sendable {
        case action(ActionEnvelope)
        case error(ActionAnswer, key: String)

        var key: String {
            switch self {
            case .action(let envelope): envelope.key
            case .error(_, let key): key
            }
        }
    }

    private let steps: [Step]

    /// Carries out these steps.
    init(steps: [Step]) { self.steps = steps }

    /// Reads `{member: [action, …]}`. Each action is an envelope or in the plain shape.
    init(_ member: StaticString, _ body: [UInt8], most: Int) throws(Problem) {
        let steps = body.withUnsafeBytes { body in
            Result { () throws(Problem) in try Self.steps(member, body, most) }
        }
        self.steps = try steps.get()
    }

    private static func steps(
        _ member: StaticString, _ body: UnsafeRawBufferPointer, _ most: Int
    ) throws(Problem) -> [Step] {
        var steps: [Step] = []
        do {
            var reader = try JSONObjectReader(body, maxDepth: ActionLimits.depth + 2)
            while let found = try reader.next() {
                guard found.isNamed(member) else { continue }
                guard steps.isEmpty else { throw Problem(message: "\(member) is given twice.") }
                var elements = try found.value.array(maxDepth: ActionLimits.depth + 1)
                while let element = try elements.next() {
                    guard steps.count < most else {
                        throw Problem(
                            message: "\(member) has more than \(most) actions: send them in several requests.")
                    }
                    steps.append(try step(Array(element.bytes), "\(member)[\(steps.count)]"))
                }
            }
        } catch let problem as Problem {
            throw problem
        } catch {
            throw Problem(message: "Send a JSON object whose \(member) is a list of actions.")
        }
        guard !steps.isEmpty else { throw Problem(message: "\(member) must be a list of actions, one at least.") }
        return steps
    }

    private static func step(_ text: [UInt8], _ element: String) throws(Problem) -> Step {
        do throws(ActionError) {
            return .action(try ActionEnvelope.decode(text, plain: .plain, keyField: nil).envelope)
        } catch {
            switch error {
            case .keyless(let message): throw Problem(message: "\(element): \(message).")
            case .invalid(let key, let path, let message, let wording):
                let path = wording.path(ofField: path.description)
                return .error(.invalid(key: key, path: path, message: message), key: key)
            }
        }
    }

    /// Calls `done` once, with one answer per action.
    func carryOut(
        _ act: @escaping @Sendable (ActionEnvelope, @escaping @Sendable (ActionAnswer) -> Void) -> Void,
        done: @escaping @Sendable ([ActionAnswer]) -> Void
    ) {
        next([], act, done)
    }

    private func next(
        _ answers: [ActionAnswer],
        _ act: @escaping @Sendable (ActionEnvelope, @escaping @Sendable (ActionAnswer) -> Void) -> Void,
        _ done: @escaping @Sendable ([ActionAnswer]) -> Void
    ) {
        guard answers.count < steps.count else { return done(answers) }
        switch steps[answers.count] {
        case .error(let answer, _): next(answers + [answer], act, done)
        case .action(let envelope):
            act(envelope) { answer in
                guard answer.status == .retry else { return next(answers + [answer], act, done) }
                let rest = steps[(answers.count + 1)...].map {
                    ActionAnswer.retry(
                        key: $0.key, answer.retry == .unavailable ? .unavailable : .busy,
                        after: answer.retryAfter ?? .zero, message: "an action before it is to be sent again")
                }
                done(answers + [answer] + rest)
            }
        }
    }
}
