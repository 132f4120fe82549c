/// Why a stream is not watched.
package enum StreamRefusal: Sendable, Equatable, CaseIterable {
    /// The hub watches the maximum number of streams. There may be room later.
    case hubFull
    /// The hub watches the maximum number of this user's streams.
    case userFull
    /// No database can hold the name.
    case notNameable
}
