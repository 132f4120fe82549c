import FoundationEssentials
import Glibc

/// The PostgreSQL server programs of this machine, of one major version.
struct PostgresPrograms: Equatable {
    /// The folder with `postgres` and `initdb`.
    let folder: String
    let majorVersion: Int

    /// Oldest major version with the functions that the migrations use (`pg_current_xact_id` needs 13, others need 15).
    static let majorVersionMin = 15

    /// Finds the programs: Debian's folders first, then PATH, the newest version first.
    ///
    /// - Parameter majorVersion: the version of an existing cluster; nil for any.
    /// - Throws: a failure that names the package to install.
    static func find(majorVersion: Int?, under root: String = "/usr/lib/postgresql") throws(Failure) -> PostgresPrograms
    {
        let debian = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? [])
            .compactMap { name in Int(name).map { PostgresPrograms(folder: "\(root)/\(name)/bin", majorVersion: $0) } }
        let found = (debian + inPath()).filter(\.isComplete).sorted { $0.majorVersion > $1.majorVersion }
        if let majorVersion {
            guard let match = found.first(where: { $0.majorVersion == majorVersion }) else {
                throw Failure(
                    "the private cluster was made by PostgreSQL \(majorVersion), which is not installed: "
                        + "apt install postgresql-\(majorVersion), or remove the folder to begin anew")
            }
            return match
        }
        guard let newest = found.first(where: { $0.majorVersion >= majorVersionMin }) else {
            throw Failure("PostgreSQL \(majorVersionMin) or newer is not installed: apt install postgresql")
        }
        return newest
    }

    private var isComplete: Bool {
        ["postgres", "initdb"].allSatisfy { FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)") }
    }

    /// Programs in PATH: asked for their version, because their folder need not tell it.
    private static func inPath() -> [PostgresPrograms] {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        return path.split(separator: ":").compactMap { folder in
            let program = "\(folder)/postgres"
            guard FileManager.default.isExecutableFile(atPath: program),
                let output = try? standardOutput(of: [program, "--version"])
            else { return nil }
            // postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
            let words = output.split(whereSeparator: \.isWhitespace)
            guard words.count > 2, let version = Int(words[2].prefix { $0.isNumber }) else { return nil }
            return PostgresPrograms(folder: String(folder), majorVersion: version)
        }
    }

    private static func standardOutput(of arguments: [String]) throws(Failure) -> String {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Failure("no descriptor left") }
        let child: ChildProcess
        do {
            child = try ChildProcess.start(arguments, output: ends[1])
        } catch {
            close(ends[0])
            close(ends[1])
            throw error
        }
        close(ends[1])
        let output = Descriptor.read(ends[0], atMost: 4096)
        close(ends[0])
        _ = child.wait()
        return output
    }
}
