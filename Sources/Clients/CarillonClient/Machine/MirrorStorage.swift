/// Where the mirror is kept: a database, or memory.
protocol MirrorStorage: AnyObject {
    /// All that is kept, as of the last transaction.
    var mirror: Mirror { get }

    /// Carries out a rule in one transaction. If it throws, nothing is changed. `isFenced`: only while this process leads,
    /// which is checked in the same transaction; else it throws `CarillonError.notLeading`.
    func write<Result>(isFenced: Bool, _ rule: (inout Mirror) throws -> Result) throws -> Result
}
