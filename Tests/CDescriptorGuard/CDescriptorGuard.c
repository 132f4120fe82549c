#define _GNU_SOURCE
#include "CDescriptorGuard.h"
#include <errno.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int cd_close_from(posix_spawn_file_actions_t *actions, int fd) {
    return posix_spawn_file_actions_addclosefrom_np(actions, fd);
}

#if __has_feature(thread_sanitizer)

bool cd_is_guarding(void) { return false; }

#else

bool cd_is_guarding(void) { return true; }

int close(int fd) {
    int code = (int)syscall(SYS_close, fd);
    // A negative number is nobody's, ever: closing it is idle and harms no one.
    if (code == 0 || errno != EBADF || fd < 0) return code;
    dprintf(STDERR_FILENO, "close(%d): not open. Closed twice, a descriptor is another's the second time.\n", fd);
    void *frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    abort();
}

#endif
