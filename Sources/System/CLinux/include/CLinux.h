// The few Linux calls that Swift's Glibc module lacks, behind plain prototypes: _GNU_SOURCE in an imported header
// changes types of the whole module, so it stays inside CLinux.c.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

static const uint32_t cl_epollin = EPOLLIN;
static const uint32_t cl_epollout = EPOLLOUT;
static const uint32_t cl_epollet = EPOLLET;
static const uint32_t cl_epollrdhup = EPOLLRDHUP;
static const uint32_t cl_epollhup = EPOLLHUP;
static const uint32_t cl_epollerr = EPOLLERR;

static inline uint64_t cl_event_token(const struct epoll_event *event) { return event->data.u64; }
int cl_epoll_add(int epoll, int fd, uint32_t events, uint64_t token);
int cl_epoll_modify(int epoll, int fd, uint32_t events, uint64_t token);
int cl_epoll_remove(int epoll, int fd);

/// Fetches the two cache lines at the address, soon to be written, while other work goes on.
static inline void cl_prefetch(const void *address) {
    __builtin_prefetch(address, 1);
    __builtin_prefetch((const char *)address + 64, 1);
}

/// Blocks of 128 KiB and more are mapped each by itself, as glibc begins, and go back to the kernel when they are freed. It
/// would raise that bound to 32 MiB with use: of a table that has doubled, the former halves would stay as holes.
void cl_map_large_blocks(void);

/// accept4(2) with SOCK_NONBLOCK | SOCK_CLOEXEC.
int cl_accept(int fd, struct sockaddr_storage *address);
/// send(2) and sendmsg(2), but no points at which a thread may be cancelled, which none of ours ever is: glibc's
/// bookkeeping for that costs more than the rest of the call.
ssize_t cl_send(int fd, const void *bytes, size_t count, int flags);
ssize_t cl_sendmsg(int fd, const struct msghdr *message, int flags);
/// eventfd(2) with EFD_NONBLOCK | EFD_CLOEXEC.
int cl_eventfd(void);
/// A non-blocking, close-on-exec stream socket of the family.
int cl_stream_socket(int family);
int cl_set_option(int fd, int level, int option, int value);
/// SIOCOUTQ: bytes sent that the peer has not acknowledged; 0 where the kernel does not say.
int cl_unacknowledged(int fd);
/// Connections that may wait at a listening socket of TCP, as net.core.somaxconn leaves it; -1: no such socket.
int cl_backlog(int fd);
/// SO_PEERCRED: the user and the process at the other end of a unix-domain connection. 0, or -1 with errno.
int cl_peer(int fd, uid_t *user, pid_t *process);

/// The most descriptors of one message.
#define CL_DESCRIPTORS_MAX 32
/// sendmsg(2) of bytes with 1 to CL_DESCRIPTORS_MAX descriptors (SCM_RIGHTS).
ssize_t cl_send_descriptors(int fd, const void *bytes, size_t count, const int *descriptors, size_t descriptor_count);
/// recvmsg(2) of bytes and of at most CL_DESCRIPTORS_MAX descriptors, which are closed on exec; further ones are closed.
/// `sender` is the process that sent them where SO_PASSCRED is set; otherwise 0.
ssize_t cl_receive_descriptors(
    int fd, void *bytes, size_t count, int *descriptors, size_t *descriptor_count, pid_t *sender);
int cl_set_thread_name(const char *name);

/// Starts a program found in PATH, in a session of its own and in the folder /, with no signal blocked or ignored and
/// no descriptor but 0 (/dev/null), 1 and 2 (both `output`, or /dev/null where that is negative), and 3 (`given`, unless
/// that is negative). Returns 0 or an errno.
int cl_spawn(pid_t *child, char *const arguments[], char *const environment[], int output, int given);
