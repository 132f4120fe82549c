import CDescriptorGuard
import Glibc
import Testing

/// Every close in this process, including those of libraries, passes through the guard.
@Suite(.timeLimit(.minutes(15))) struct DescriptorGuardTests {
    @Test(.enabled(if: cd_is_guarding(), "ThreadSanitizer keeps its own close"))
    func aSecondCloseEndsTheTests() async {
        await #expect(processExitsWith: .signal(SIGABRT)) {
            let descriptor = dup(STDERR_FILENO)
            close(descriptor)
            close(descriptor)
        }
    }

    @Test func closingNothingIsNone() {
        #expect(close(-1) == -1)
        #expect(errno == EBADF)
    }
}
