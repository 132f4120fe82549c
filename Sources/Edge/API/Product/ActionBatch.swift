import Bytes
import JSON
import Store
import Sync

/// The actions of one request, carried out one after the other. After an action that must be sent again none is carried
/// out, since it may depend on that one (`ActionChain`).
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
    ///
    /// - Parameter act: has the actions applied in their order, and gives an answer for each. After one that is to be sent
    ///   again it begins none.
    func carryOut(
        _ act: (_ actions: [ActionEnvelope], _ answers: @escaping @Sendable ([ActionAnswer]) -> Void) -> Void,
        done: @escaping @Sendable ([ActionAnswer]) -> Void
    ) {
        let actions = steps.compactMap { step in
            if case .action(let envelope) = step { envelope } else { nil }
        }
        act(actions) { answers in
            var rest = answers[...]
            var last: ActionAnswer?
            done(
                steps.map { step in
                    var answer: ActionAnswer? =
                        switch step {
                        case .action: rest.popFirst()
                        case .error(let answer, _): answer
                        }
                    if case .error = step, let last { answer = last.behind(step.key) }
                    guard let answer else {
                        return .retry(
                            key: step.key, .unavailable, after: .seconds(1), message: "the hub has no answer to it")
                    }
                    if answer.status == .retry, last == nil { last = answer }
                    return answer
                })
        }
    }
}
