#define _GNU_SOURCE
#include "CLinux.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
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

int cl_backlog(int fd) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
    return (int)info.tcpi_sacked;
}

int cl_peer(int fd, uid_t *user, pid_t *process) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
    *user = peer.uid;
    *process = peer.pid;
    return 0;
}

ssize_t cl_send_descriptors(int fd, const void *bytes, size_t count, const int *descriptors, size_t descriptor_count) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * CL_DESCRIPTORS_MAX)];
    } control;
    if (descriptor_count == 0 || descriptor_count > CL_DESCRIPTORS_MAX) return errno = EINVAL, -1;
    memset(&control, 0, sizeof control);
    struct iovec text = {.iov_base = (void *)bytes, .iov_len = count};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control,
        .msg_controllen = CMSG_SPACE(sizeof(int) * descriptor_count)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * descriptor_count);
    memcpy(CMSG_DATA(header), descriptors, sizeof(int) * descriptor_count);
    ssize_t sent;
    do sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent;
}

ssize_t cl_receive_descriptors(
    int fd, void *bytes, size_t count, int *descriptors, size_t *descriptor_count, pid_t *sender) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * CL_DESCRIPTORS_MAX) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec text = {.iov_base = bytes, .iov_len = count};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *descriptor_count = 0;
    *sender = 0;
    ssize_t received;
    do received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    if (received < 0) return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET) continue;
        if (header->cmsg_type == SCM_CREDENTIALS) {
            struct ucred from;
            memcpy(&from, CMSG_DATA(header), sizeof from);
            *sender = from.pid;
        }
        if (header->cmsg_type != SCM_RIGHTS) continue;
        size_t more = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < more; index++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + index * sizeof(int), sizeof descriptor);
            if (*descriptor_count < CL_DESCRIPTORS_MAX) descriptors[(*descriptor_count)++] = descriptor;
            else close(descriptor);
        }
    }
    return received;
}

int cl_set_thread_name(const char *name) { return pthread_setname_np(pthread_self(), name); }

int cl_spawn(pid_t *child, char *const arguments[], char *const environment[], int output, int given) {
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
        // Without close-on-exec, even where it is descriptor 3 already.
        if (code == 0 && given >= 0) code = posix_spawn_file_actions_adddup2(&actions, given, 3);
        if (code == 0) code = posix_spawn_file_actions_addclosefrom_np(&actions, given >= 0 ? 4 : 3);
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
