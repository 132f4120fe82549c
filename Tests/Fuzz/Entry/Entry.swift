import FuzzProperties
import Glibc

// What libFuzzer's `main` calls. One program for all parsers: which one it feeds is told by `CARILLON_FUZZ`.

private let parser: FuzzedParser = {
    let name = getenv("CARILLON_FUZZ").map { String(cString: $0) } ?? ""
    guard let parser = FuzzedParser(rawValue: name) else {
        fatalError("CARILLON_FUZZ names no parser; there are \(FuzzedParser.allCases.map(\.rawValue))")
    }
    return parser
}()

// libFuzzer calls from one thread.
nonisolated(unsafe) private let tools = FuzzTools()

/// One input. A property that does not hold ends the process, which libFuzzer takes for a crash and keeps the input.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do throws(Violation) {
        try parser.check([UInt8](UnsafeBufferPointer(start: start, count: count)), tools)
    } catch {
        fatalError("\(parser.rawValue): \(error.message)")
    }
    return 0
}
