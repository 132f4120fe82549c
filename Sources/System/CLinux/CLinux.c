#define _GNU_SOURCE
#include "CLinux.h"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <linux/sockios.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int control(int epoll, int operation, int fd, uint32_t events, uint64_t token) {
    struct epoll_event event = {.events = events, .data.u64 = token};
    return epoll_ctl(epoll, operation, fd, &event);
}

int cl_epoll_add(int epoll, int fd, uint32_t events, uint64_t token) {
    return control(epoll, EPOLL_CTL_ADD, fd, events, token);
}

int cl_epoll_modify(int epoll, int fd, uint32_t events, uint64_t token) {
    return control(epoll, EPOLL_CTL_MOD, fd, events, token);
}

int cl_epoll_remove(int epoll, int fd) { return control(epoll, EPOLL_CTL_DEL, fd, 0, 0); }

void cl_map_large_blocks(void) { mallopt(M_MMAP_THRESHOLD, 128 * 1024); }

int cl_accept(int fd, struct sockaddr_storage *address) {
    socklen_t length = sizeof *address;
    return accept4(fd, (struct sockaddr *)address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

ssize_t cl_send(int fd, const void *bytes, size_t count, int flags) {
    return syscall(SYS_sendto, fd, bytes, count, flags, NULL, 0);
}

ssize_t cl_sendmsg(int fd, const struct msghdr *message, int flags) {
    return syscall(SYS_sendmsg, fd, message, flags);
}

int cl_eventfd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

int cl_stream_socket(int family) { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

int cl_set_option(int fd, int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof value);
}

int cl_unacknowledged(int fd) {
    int count = 0;
    return ioctl(fd, SIOCOUTQ, &count) == 0 ? count : 0;
}

int cl_set_thread_name(const char *name) { return pthread_setname_np(pthread_self(), name); }

int cl_spawn(pid_t *child, char *const arguments[], char *const environment[], int output) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, every;
    sigemptyset(&none);
    sigfillset(&every);
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0) return code;
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        for (int fd = 1; fd <= 2 && code == 0; fd++)
            code = output >= 0 ? posix_spawn_file_actions_adddup2(&actions, output, fd)
                               : posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
        if (code == 0) code = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
        if (code == 0) code = posix_spawn_file_actions_addchdir_np(&actions, "/");
        if (code == 0) code = posix_spawnattr_setsigmask(&attributes, &none);
        if (code == 0) code = posix_spawnattr_setsigdefault(&attributes, &every);
        short flags = POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        if (code == 0) code = posix_spawnattr_setflags(&attributes, flags);
        if (code == 0) code = posix_spawnp(child, arguments[0], &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}
