import Bytes
import Clock
import Pusher

/// Actions of devices that come and go, each device in its own order: an action is sent until it is answered, always under
/// its key. Each device takes one dose and undoes that, in turn, so every action must be applied.
final class PatientActions {
    private struct Actor {
        /// Actions that it has done, sent or not.
        var done = 0
        var answered = 0
        /// The last one that was sent on the present connection.
        var sent = 0
    }

    private let names: Names
    private let crowd: Crowd
    private let book: CommitBook
    private let row: (Int) -> Int
    private var actors: ContiguousArray<Actor>
    private var schedule: Schedule
    private var random: SeededGenerator
    private(set) var doneCount = 0
    private(set) var answeredCount = 0
    /// Actions that were sent once more, since no answer had come to the connection before.
    private(set) var repeatedCount = 0
    /// What was wrong with an answer, at first.
    private(set) var complaint: String?

    /// - Parameters:
    ///   - rate: actions of all devices, a second.
    ///   - row: the dose of each device.
    init(
        of crowd: Crowd, _ names: Names, _ book: CommitBook, rate: Double, seed: UInt64, row: @escaping (Int) -> Int
    ) {
        self.crowd = crowd
        self.names = names
        self.book = book
        self.row = row
        actors = ContiguousArray(repeating: Actor(), count: crowd.recipients.count)
        schedule = Schedule(rate: rate, start: .read(), seed: seed)
        random = SeededGenerator(seed: seed)
    }

    var waitingCount: Int { doneCount - answeredCount }

    /// Does what is due by now. Who is away does it, too, and sends it later.
    func act(at now: Instant) throws(LoadFailure) {
        while schedule.next <= now {
            schedule.advance()
            let number = Int.random(in: actors.indices, using: &random)
            // Its dose is not done again before the answers are there.
            guard actors[number].done - actors[number].answered < Limits.actionsPerDevice else { continue }
            actors[number].done += 1
            doneCount += 1
            book.committing(row(number), at: now)
            sendRest(of: number)
        }
        if let complaint { throw LoadFailure(complaint) }
    }

    /// The device has a connection, and all that it missed.
    func isBack(_ number: Int) {
        repeatedCount += actors[number].sent - actors[number].answered
        actors[number].sent = actors[number].answered
        sendRest(of: number)
    }

    func answered(_ result: ActionResult, _ number: Int) {
        guard let action = result.action, action.device == number, action.number == actors[number].answered + 1 else {
            return complain("an answer came to the wrong device, again, or out of order")
        }
        guard result.status == "applied" else {
            return complain("an action was answered \(result.status) \(result.code ?? "")")
        }
        actors[number].answered += 1
        answeredCount += 1
    }

    private func complain(_ what: String) {
        complaint = complaint ?? what
    }

    private func sendRest(of number: Int) {
        guard let device = crowd.connection(of: number) else { return }
        while actors[number].sent < actors[number].done, device.phase == .live {
            actors[number].sent += 1
            device.send(names.action(MannerStep(actors[number].sent, rows: 1), of: number, onRow: row(number)))
        }
    }
}

extension Names {
    /// `sync:action`: the device takes the dose in that row, or undoes its action before.
    func action(_ step: MannerStep, of device: Int, onRow row: Int) -> ByteWriter {
        var action = ByteWriter(capacity: 256)
        action.append(#"{"event":"sync:action","data":{"v":1,"key":""#)
        action.append(utf8: key(device, step.number))
        action.append(#"","deviceId":""#)
        action.append(utf8: id(device))
        action.append(#"","n":"#)
        action.append(decimal: step.number)
        if step.isUndo {
            action.append(#","type":"undo","payload":{"targetKey":""#)
            action.append(utf8: key(device, step.number - 1))
        } else {
            action.append(#","type":"markTaken","payload":{"occurrenceId":""#)
            action.append(utf8: id(row))
        }
        action.append(#""}}}"#)
        return action
    }
}
