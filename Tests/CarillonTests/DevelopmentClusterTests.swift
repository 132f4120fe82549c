import Foundation
import Glibc
import TestSupport
import Testing

@testable import carillon

@Suite(.ownThread, .serialized, .timeLimit(.minutes(15)))
struct DevelopmentClusterTests {
    @Test func startsStopsAndKeepsItsData() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        try server.query("create table kept (n int)")
        #expect(try server.query("show listen_addresses").first?.first == "")
        #expect(try server.query("select current_user", as: "postgres").first?.first == "postgres")
        #expect(mode(of: cluster.folders.socket) == 0o700)
        #expect(mode(of: cluster.folders.base) == 0o700)
        cluster.stop()
        #expect(cluster.processID == nil)
        #expect(throws: (any Error).self) { try server.query("select 1") }
        #expect(try !cluster.start())
        #expect(try server.query("select count(*) from kept").first?.first == "0")
    }

    @Test func comesBackAfterItsPostmasterWasKilled() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        try server.query("create table kept (n int)")
        let processID = try #require(cluster.processID)
        kill(processID, SIGKILL)
        #expect(try !cluster.start())
        #expect(cluster.processID != processID)
        #expect(try server.query("select count(*) from kept").first?.first == "0")
    }

    @Test func anEndThatNobodyAskedForIsTold() throws {
        let server = try PrivateCluster()
        let told = Latch()
        let cluster = try DevelopmentCluster(directory: server.directory) { told.set() }
        defer { cluster.stop() }
        try cluster.start()
        cluster.stop()
        try cluster.start()
        #expect(!told.isSet)
        kill(try #require(cluster.processID), SIGKILL)
        #expect(told.wait(timeout: .seconds(30)))
    }

    @Test func theDayIsThatOfUTC() throws {
        let server = try PrivateCluster()
        try server.start()
        #expect(try server.query("show timezone").first?.first == "UTC")
    }

    @Test func takesOverTheServerOfAKilledHub() throws {
        let server = try PrivateCluster()
        let first = try #require(server.start().processID)
        server.abandon()
        let second = try #require(server.start().processID)
        #expect(second != first)
        #expect(kill(first, 0) != 0)
    }

    @Test func stopsAServerThatWasRestartedByHand() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        let user = try ClusterUser.current()
        for arguments in [["-m", "immediate", "stop"], ["-l", cluster.folders.base + "/data/log", "start"]] {
            let exit = try ChildProcess.run(
                user.running(["\(cluster.programs.folder)/pg_ctl", "-D", cluster.folders.data, "-w"] + arguments))
            #expect(exit.isSuccess)
        }
        // The settings are in the cluster's configuration, so a server started by hand has them too.
        #expect(try server.query("show listen_addresses").first?.first == "")
        cluster.stop()
        #expect(cluster.processID == nil)
    }

    @Test func makesAnewWhatWasHalfMade() throws {
        let server = try PrivateCluster()
        let user = try ClusterUser.current()
        let folders = try ClusterFolders.prepare(directory: server.directory, user: user)
        for folder in [folders.unfinishedData, folders.data] {
            try user.makePrivateFolder(folder)
            try "half".write(toFile: folder + "/base", atomically: false, encoding: .utf8)
        }
        try server.start()
        #expect(try server.query("select 1").count == 1)
    }

    @Test func startsBesideALockFileOfAnotherProcess() throws {
        let server = try PrivateCluster()
        let cluster = try server.start()
        cluster.stop()
        // The number of a live process that is not this folder's server.
        let file = cluster.folders.data + "/postmaster.pid"
        try "\(getpid())\n\(cluster.folders.data)\n".write(toFile: file, atomically: false, encoding: .utf8)
        #expect(cluster.processID == nil)
        try cluster.start()
        #expect(cluster.processID != nil)
    }

    @Test func isHeldByOneAtATime() throws {
        let server = try PrivateCluster()
        try server.start()
        let failure = #expect(throws: Failure.self) { try DevelopmentCluster(directory: server.directory) }
        #expect(failure?.description.contains("in use by another") == true)
        #expect(failure?.description.contains("process \(getpid())") == true)
    }

    @Test func putsTheSocketElsewhereWhereThePathIsTooLong() throws {
        let server = try PrivateCluster(depth: 150)
        let cluster = try server.start()
        #expect(cluster.folders.base.hasPrefix(server.directory))
        #expect(!cluster.folders.socket.hasPrefix(server.directory))
        #expect(mode(of: cluster.folders.socket) == 0o700)
        #expect(try server.query("select 1").count == 1)
    }

    @Test func socketPathsFitToTheByte() {
        // 14 bytes are the socket's own name: "/.s.PGSQL.5432".
        let longest = "/" + String(repeating: "d", count: ClusterFolders.socketPathBytesMax - 15)
        #expect(ClusterFolders.fits(longest))
        #expect(!ClusterFolders.fits(longest + "d"))
        #expect(!ClusterFolders.fits("/a,b"))
        #expect(!ClusterFolders.fits("/a'b"))
    }

    @Test(.enabled(if: geteuid() == 0, "only root has folders that the cluster's user cannot enter"))
    func putsTheDataElsewhereWhereItsUserCannotGo() throws {
        let server = try PrivateCluster()
        chmod(server.directory, 0o700)
        let base = try server.start().folders.base
        #expect(base.hasPrefix("/var/tmp/carillon-"))
        #expect(try server.query("select 1").count == 1)
        server.cluster?.stop()
        server.abandon()
        // Recorded, so found again even if the folder is accessible by now.
        chmod(server.directory, 0o755)
        #expect(try server.start().folders.base == base)
    }

    @Test func refusesAPrivateFolderOfOthers() throws {
        let server = try PrivateCluster()
        let user = try ClusterUser.current()
        let open = server.directory + "/open"
        mkdir(open, 0o755)
        chmod(open, 0o755)
        #expect(throws: Failure.self) { try user.makePrivateFolder(open) }
        let link = server.directory + "/link"
        symlink(server.directory, link)
        #expect(throws: Failure.self) { try user.makePrivateFolder(link) }
    }

    @Test func namesThePackageThatIsMissing() {
        let failure = #expect(throws: Failure.self) { try PostgresPrograms.find(majorVersion: 9) }
        #expect(failure?.description.contains("apt install postgresql-9") == true)
    }

    private func mode(of path: String) -> mode_t {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
    }
}
