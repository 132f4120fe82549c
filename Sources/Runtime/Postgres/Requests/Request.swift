import Bytes
import Clock

/// A statement on its way through a pool, from `RequestPool.append` to its end. It is told each answer, or once that there
/// will be none. Subclasses give it a purpose. Belongs to the pool's loop.
open class Request {
    /// What a request begins with. Public, as the class is: for an initializer of less access, Swift makes stubs in
    /// subclasses that call themselves.
    public struct Terms {
        let kind: Int
        let user: TextKey
        let statement: PreparedStatement
        let parameters: CStringList
        let timeout: Duration?
        let deadline: Instant

        /// - Parameters:
        ///   - timeout: how long it may take in the database; the pool's timeout holds too.
        ///   - deadline: the last moment for an answer; none by default.
        package init(
            kind: Int, of user: TextKey, _ statement: PreparedStatement, _ parameters: CStringList = CStringList(),
            within timeout: Duration? = nil, deadline: Instant = Instant(nanoseconds: .max)
        ) {
            (self.kind, self.user) = (kind, user)
            (self.statement, self.parameters) = (statement, parameters)
            (self.timeout, self.deadline) = (timeout, deadline)
        }
    }

    /// The index of its kind in `PoolSettings.kinds`.
    package final let kind: Int
    /// Its user; users are served in turn.
    package final let user: TextKey
    /// The statement that is executed next.
    package final var statement: PreparedStatement
    /// The statement's parameters, needed from `willBeSent` on. Their size in bytes is the request's cost.
    package final var parameters: CStringList
    /// How long it may take in the database, where that is less than the pool's timeout.
    package final let timeout: Duration?
    /// When it ends as expired.
    package final let deadline: Instant
    /// Losses held against it: connections that were lost while it was alone on them.
    package internal(set) final var losses = 0
    /// Whether it was in flight on a lost connection, so that it may have been carried out. It is then sent alone.
    package internal(set) final var mayBeDone = false
    /// Whether it was in flight before, and is next sent by itself and not in a batch.
    final var wasTried = false
    /// Whether it was told its end. It may still be in flight, and its user's later requests wait for that.
    package internal(set) final var isOver = false
    final var line: FairQueue<TextKey, Request>.Line?

    /// A request that has not been sent.
    public init(_ terms: Terms) {
        kind = terms.kind
        user = terms.user
        statement = terms.statement
        parameters = terms.parameters
        timeout = terms.timeout
        deadline = terms.deadline
    }

    /// Whether it may share a transaction with its user's other requests (`RequestBatch`).
    open var isJoinable: Bool { false }

    /// Its turn has come. Return false if the answer is no longer needed: the request is then dropped silently.
    open func willBeSent() -> Bool { true }

    /// Receives the database's answer, after the end of its transaction. Returns what follows.
    open func answered(_ answer: Result<Rows, PostgresError>) -> NextStep { .done }

    /// There is no answer, or not in time. Called at most once. `answered` may follow if the request was in flight.
    open func ended(_ end: RequestFailure) {}

    final func end(_ end: RequestFailure) {
        guard !isOver else { return }
        ended(end)
        isOver = true
    }

    /// Ends it if its deadline has passed while it is in flight.
    func expire(at now: Instant) {
        guard deadline <= now else { return }
        mayBeDone = true
        end(.expired)
    }
}

/// What becomes of a request after its answer.
public enum NextStep {
    /// Nothing more.
    case done
    /// Nothing more. The database has decided, so the user is no longer a suspect.
    case decided
    /// It is executed again, before all other requests. The request itself bounds how often. If it is over, it is done.
    case again
    /// It is executed again, behind its user's other requests.
    case later
    /// Of a batch, this many parts are done; the others were not begun, or all were undone. They wait again.
    case rest(after: Int)
    /// It cost connection time without a result. It and its user's queued requests end, and the user is held (`Suspects`).
    case hold(HoldReason)
}

/// Why a request ended without an answer.
public enum RequestFailure {
    /// Its deadline has passed.
    case expired
    /// Too many connections were lost under it.
    case lost
    /// There is no connection.
    case away
    /// The queue is full, for its user or for all.
    case full
    /// Requests of its user are refused for this long.
    case held(Duration, HoldReason)
    /// The pool is stopping.
    case stopping
}

/// Why a user's requests are held back for a while.
public enum HoldReason: Equatable, Sendable {
    /// Another writer has their rows.
    case locked
    /// The database ran out of time, or failed in a way that decides nothing.
    case failed
}

/// A request whose answer is passed to a closure.
package final class CallbackRequest: Request {
    private let told: (Result<Rows, PostgresError>?) -> Void

    /// - Parameter told: takes the answer, or nil if there is none. Called once.
    package init(
        kind: Int, of user: TextKey, _ statement: PreparedStatement, _ parameters: CStringList = CStringList(),
        told: @escaping (Result<Rows, PostgresError>?) -> Void
    ) {
        self.told = told
        super.init(Terms(kind: kind, of: user, statement, parameters))
    }

    package override func answered(_ answer: Result<Rows, PostgresError>) -> NextStep {
        if !isOver { told(answer) }
        return .done
    }

    package override func ended(_ end: RequestFailure) { told(nil) }
}
