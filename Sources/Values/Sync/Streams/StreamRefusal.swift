/// Why a stream is not watched.
package enum StreamRefusal: Sendable, Equatable, CaseIterable {
    /// The hub watches as many streams as it may. There may be room later.
    case hubFull
    /// The hub watches as many streams of this user as it may.
    case userFull
    /// No database can hold the name.
    case notNameable
}
