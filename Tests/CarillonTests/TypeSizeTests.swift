import Testing

@Suite struct TypeSizeTests {
    @Test func typesAreWithinTheirBounds() throws {
        let breaches = TypeSizes(sources: try SourceTree.texts()).breaches
        for (name, size) in breaches.sorted(by: { $0.key < $1.key }) {
            Issue.record("\(name) has \(size.lines) lines and \(size.properties) stored properties")
        }
    }

    // MARK: The counter itself

    private static let sample = """
        /// Not counted.
        @frozen public final class Tail: Source {
            private static let none = 0
            let a, b: Int
            private(set) var (c, d) = (0, 0) {
                didSet { a = 1 }
            }
            weak var e: Tail?
            var f: Int { 1 }
            var g: Int {
                let h = 1
                return h
            }
            let i: () -> Void = { }

            struct Inner {
                var j = 1
            }

            func k() {
                let text = \"\"\"
                struct No {
            }
            \"\"\"
            }
        }
        struct Small {}
        """

    @Test func linesAndPropertiesAreCounted() {
        let more = "extension Tail {\n    var l: Int { 2 }\n    struct Other { }\n}\n"
        let sizes = TypeSizes(
            sources: [
                "Data/Feed/A.swift": Self.sample, "Data/Feed/Deep/B.swift": more, "Edge/API/C.swift": more,
                "Edge/API/D.swift": "extension Int {\n}",
                "carillon/Commands/E.swift": "struct Small {\n    let a = 1\n}",
                "carillon/F.swift": "extension Small {\n}", "Data/Feed/CMakeLists.txt": "struct No {\n}",
            ]
        ).sizes
        #expect(sizes["Feed.Tail"] == TypeSizes.Size(lines: 25 + 4 + 4, properties: 6))
        #expect(sizes["Feed.Tail.Inner"] == TypeSizes.Size(lines: 3, properties: 1))
        #expect(sizes["Feed.Small"] == TypeSizes.Size(lines: 1, properties: 0))
        #expect(sizes["carillon.Small"] == TypeSizes.Size(lines: 5, properties: 1))
        #expect(sizes["API.Int"] == TypeSizes.Size(lines: 2, properties: 0))
        #expect(
            Set(sizes.keys) == [
                "Feed.Tail", "Feed.Tail.Inner", "Feed.Tail.Other", "API.Tail.Other", "Feed.Small", "carillon.Small",
                "API.Int",
            ])
    }

    @Test func typesAreHeldToTheirBounds() {
        func breaches(_ lines: Int, _ properties: Int) -> Int {
            let members =
                (0..<properties).map { "    let a\($0) = 0\n" } + Array(repeating: "\n", count: lines - properties - 2)
            return TypeSizes(sources: ["Data/Feed/A.swift": "struct A {\n\(members.joined())}"]).breaches.count
        }
        #expect(breaches(400, 20) == 0)
        #expect(breaches(401, 20) == 1)
        #expect(breaches(400, 21) == 1)
    }
}
