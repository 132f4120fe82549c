import Testing

@testable import API

/// The values that a parameter accepts, and the errors for others. Days and months: `SnapshotRouteTests`.
@Suite struct RouteParameterTests {
    private func read(_ parameter: RouteParameter, _ query: String, capture: String? = nil) -> String? {
        do throws(RouteParameter.Problem) {
            return try parameter.argument(capture: capture, query: Array(query.utf8)) ?? "NULL"
        } catch {
            return "! \(error.message)"
        }
    }

    @Test(arguments: [
        ("n=1", "1"), ("n=200", "200"), ("x=1&x=2&n=7", "7"), ("n=%31", "1"), ("", "NULL"), ("N=1", "NULL"),
        ("n=0", nil), ("n=201", nil), ("n=", nil), ("n", nil), ("n=+7", nil), ("n=07", nil), ("n=7.0", nil),
        ("n=-1", nil),
        ("n=%37%00", nil), ("n=%zz", nil), ("n=99999999999999999999", nil), ("n=٧", nil),
    ])
    func numbers(_ query: String, _ value: String?) {
        let got = read(RouteParameter("n", .integer(1...200)), query)
        #expect(got == value ?? "! n must be a whole number from 1 to 200.")
    }

    @Test(arguments: [
        ("q=a", "a"), ("q=%C3%BC", "ü"), ("q=a+b", "a b"), ("q=abc", "abc"), ("q=abcd", nil), ("q=%C3%BC%C3%BC", nil),
        ("q=", nil), ("q=%FF", nil), ("q=a%00", nil), ("q=%", nil),
    ])
    func texts(_ query: String, _ value: String?) {
        #expect(read(RouteParameter("q", .text(1...3)), query) == value ?? "! q must be a text of 1 to 3 bytes.")
    }

    @Test(arguments: [("f=csv", "csv"), ("f=json", "json"), ("f=CSV", nil), ("f=", nil), ("f=xml", nil)])
    func choices(_ query: String, _ value: String?) {
        let got = read(RouteParameter("f", .choice(["csv", "json"])), query)
        #expect(got == value ?? "! f must be one of csv, json.")
    }

    @Test func missingParametersHaveTheirDefault() {
        #expect(read(RouteParameter("n", .integer(1...9), absence: .value("5")), "") == "5")
        #expect(read(RouteParameter("n", .integer(1...9), absence: .value("5")), "n=6") == "6")
        #expect(read(RouteParameter("d", .day, absence: .refused), "")?.hasPrefix("! d must be a day") == true)
        #expect(read(RouteParameter("m", .month), "") == "NULL")
        #expect(
            read(RouteParameter("m", .month), "year=2025") == "! Name a month, such as m=2025-11, or year=2025&m=11.")
    }

    /// Of two values, nobody knows which one is meant: neither counts.
    @Test(arguments: ["n=1&n=2", "n=1&x=1&n=1", "n=&n=3", "n=1&n"])
    func aRepeatedParameterIsRefused(_ query: String) {
        #expect(read(RouteParameter("n", .integer(1...9)), query) == "! n is given twice.")
        #expect(read(RouteParameter("x", .integer(1...9)), "\(query)&x=5")?.contains("twice") == query.contains("x"))
        #expect(read(RouteParameter("n", .integer(1...9)), query, capture: "7") == "7")
    }

    @Test func soIsARepeatedYear() {
        #expect(read(RouteParameter("month", .month), "year=2025&month=11&year=2024") == "! year is given twice.")
        #expect(read(RouteParameter("month", .month), "month=2025-11&month=2025-11") == "! month is given twice.")
    }

    /// A path segment takes precedence over the query. A NUL in it is passed on: the database finds nothing by it.
    @Test func segmentsOfThePath() {
        #expect(read(RouteParameter("id", .text(1...3)), "id=x", capture: "a\0") == "a\0")
        #expect(read(RouteParameter("id", .integer(1...9)), "", capture: "x")?.hasPrefix("! id must be") == true)
    }
}
