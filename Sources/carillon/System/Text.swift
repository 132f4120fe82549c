extension StringProtocol {
    /// Without the blanks and line ends before and behind it.
    var trimmed: String {
        let start = drop(while: \.isWhitespace)
        return String(start[..<(start.lastIndex { !$0.isWhitespace }.map(start.index(after:)) ?? start.startIndex)])
    }

    /// With blanks behind it, up to so many characters at least.
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: Swift.max(0, width - count))
    }
}
