import Bytes
import Clock

/// A statement on its way through a pool, from `RequestPool.append` to its end: told of each answer, or once that there will be
/// none. Belongs to the pool's loop. Subclasses know what it is about.
open class Request {
    /// Which of the pool's kinds, by its place among them.
    package final let kind: Int
    /// Whose it is: users are served in turn.
    package final let user: TextKey
    /// What is executed next.
    package final var statement: PreparedStatement
    /// Its parameters, needed from `willBeSent` on; what they take is its cost.
    package final var parameters: CStringList
    /// How long it may take in the database, where that is less than for all of its pool.
    package final let timeout: Duration?
    /// When it is told that it has expired.
    package final let deadline: Instant
    /// Connections that ended while it was under way on them alone.
    package internal(set) final var losses = 0
    /// Whether it was sent on a connection that was lost: nobody knows whether it was carried out. It is sent alone then.
    package internal(set) final var mayBeDone = false
    /// Whether it was told its end. It may be under way nevertheless, and its user's later ones wait for that.
    package internal(set) final var isOver = false
    final var line: FairQueue<TextKey, Request>.Line?

    /// - Parameters:
    ///   - timeout: how long it may take in the database; that of its pool holds too.
    ///   - deadline: the last moment for an answer, unless there is none.
    package init(
        kind: Int, of user: TextKey, _ statement: PreparedStatement, _ parameters: CStringList = CStringList(),
        within timeout: Duration? = nil, deadline: Instant = Instant(nanoseconds: .max)
    ) {
        self.kind = kind
        self.user = user
        self.statement = statement
        self.parameters = parameters
        self.timeout = timeout
        self.deadline = deadline
    }

    /// Its turn has come. False where nobody looks at the answer any more: it ends without a word then.
    open func willBeSent() -> Bool { true }

    /// The database's answer, given after the end of its transaction. Returns what follows.
    open func answered(_ answer: Result<Rows, PostgresError>) -> NextStep { .done }

    /// There is no answer, or not in time. Called once at most; `answered` may follow where it was under way.
    open func ended(_ end: RequestEnd) {}

    final func end(_ end: RequestEnd) {
        guard !isOver else { return }
        ended(end)
        isOver = true
    }
}

/// What follows from an answer.
public enum NextStep {
    /// Nothing more.
    case done
    /// Nothing more, and the database has spoken: the user is no suspect any more.
    case decided
    /// It is executed again, before all others. The request bounds how often; once it is over, it is done.
    case again
    /// It is executed again, behind the others of its user's.
    case later
    /// It has cost a connection time, and came to nothing: it ends, and so does what waits of its user's; nothing of theirs is
    /// taken for a while (`Suspects`).
    case hold(HoldReason)
}

/// Why there is no answer.
public enum RequestEnd {
    /// Its deadline has come.
    case expired
    /// Too many connections were lost under it.
    case lost
    /// There is no connection.
    case away
    /// Too much waits, of its user or of all.
    case full
    /// Nothing of its user's is taken for so long.
    case held(Duration, HoldReason)
    /// The pool stops.
    case stopping
}

/// Why a user is held.
public enum HoldReason: Equatable, Sendable {
    /// Another writer has their rows.
    case locked
    /// The database ran out of time, or failed in a way that decides nothing.
    case failed
}

/// A request whose answer goes to a closure.
package final class Errand: Request {
    private let told: (Result<Rows, PostgresError>?) -> Void

    /// - Parameter told: takes the answer, or nil for none. Called once.
    package init(
        kind: Int, of user: TextKey, _ statement: PreparedStatement, _ parameters: CStringList = CStringList(),
        told: @escaping (Result<Rows, PostgresError>?) -> Void
    ) {
        self.told = told
        super.init(kind: kind, of: user, statement, parameters)
    }

    package override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep {
        if !isOver { told(answer) }
        return .done
    }

    package override func ended(_ end: RequestEnd) { told(nil) }
}
