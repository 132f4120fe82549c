import Testing

@testable import Feed

@Suite struct OffsetTests {
    /// No offset traps, whatever a database or a client sends.
    @Test(
        arguments: [
            (1, 0, true), (0, 0, false), (2, 0, false), (0, 1, false), (-4, -5, true), (.min, 0, false),
            (0, .min, false), (.min, .min, false), (.min + 1, .min, true), (.max, .max - 1, true), (.max, .max, false),
            (.min, .max, false), (.max, .min, false),
        ] as [(Int64, Int64, Bool)]) func followsTheOneBefore(_ offset: Int64, _ last: Int64, _ follows: Bool)
    {
        #expect(offset.follows(last) == follows)
    }
}
