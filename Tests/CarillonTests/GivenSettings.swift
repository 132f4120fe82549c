import Foundation

@testable import carillon

// Settings from command line, environment and file, for tests.

func effectiveSettings(
    _ arguments: [String] = [], environment: [String: String] = [:], profile: SettingsProfile = .serve
) throws(Failure) -> EffectiveSettings {
    try EffectiveSettings(SettingsSources(arguments: arguments, environment: environment), profile: profile)
}

func refusedSettings(
    _ arguments: [String] = [], environment: [String: String] = [:]
) -> Failure? {
    do throws(Failure) {
        _ = try effectiveSettings(arguments, environment: environment)
        return nil
    } catch {
        return error
    }
}

func withSettingsFile(_ text: String, _ body: (String) throws -> Void) throws {
    let path = FileManager.default.temporaryDirectory.path + "/carillon-\(UUID().uuidString).json"
    try text.write(toFile: path, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(atPath: path) }
    try body(path)
}
