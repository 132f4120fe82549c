import TestSupport
import Testing

@testable import API

@Suite struct EntityTagTests {
    private static let tag = EntityTag(of: [])
    private static let text = "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\""

    @Test func itIsTheBodysDigestInQuotes() {
        #expect(Self.tag.text == Self.text)
        #expect(EntityTag(of: [0]) != Self.tag && EntityTag(of: [0]) == EntityTag(of: [0]))
    }

    @Test(arguments: [
        ("TAG", true), ("W/TAG", true), ("*", true), (" \t*", true), ("\"x\", TAG", true), ("\"x\",TAG", true),
        ("W/\"x\" ,\t W/TAG , \"z\"", true), ("\"\",TAG", true), (",, ,TAG", true), ("\"a,b\", TAG", true),
        ("\"x\", *", true), ("", false), (" , ", false), ("\"x\"", false), ("\"", false), ("W/", false),
        ("W/W/TAG", false),
        ("w/TAG", false), ("W /TAG", false), ("x, TAG", false), ("\"x, TAG", false), ("'x', TAG", false),
    ])
    func fieldsThatNameIt(_ field: String, _ isNamed: Bool) {
        #expect(Self.tag.isNamed(by: Array(field.replacing("TAG", with: Self.text).utf8)) == isNamed)
        #expect(
            !Self.tag.isNamed(by: Array(field.replacing("TAG", with: Self.text.dropLast()).utf8)) || field.contains("*")
        )
    }

    /// Only a field that contains the tag, or a star, matches. No bytes trap.
    @Test func anyBytesAreRead() {
        var random = SeededRandom()
        let parts = [Array(Self.text.utf8), Array("W/".utf8), [0x22], [0x2C], [0x20], [0x00], [0xFF], [0x78]]
        for _ in 0..<20_000 {
            let field = (0..<Int.random(in: 0..<8, using: &random)).flatMap { _ in
                parts.randomElement(using: &random) ?? []
            }
            let holds = field.firstRange(of: parts[0]) != nil
            #expect(holds || !Self.tag.isNamed(by: field), "CARILLON_SEED=\(random.seed)")
        }
    }
}
