#define _GNU_SOURCE
#include "CKillPoint.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long left;

void ck_arm(void) {
    const char *number = getenv("DIE_AT_WRITE");
    if (number) ck_die_at(atol(number));
}

void ck_die_at(long number) { atomic_store(&left, number); }

static void step(int file) {
    if (file <= STDERR_FILENO || atomic_load(&left) <= 0) return;
    if (atomic_fetch_sub(&left, 1) != 1) return;
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

// Every call in this process comes here first, also those of SQLite.

#define NEXT(type, name) \
    static _Atomic(type) next; \
    type call = atomic_load_explicit(&next, memory_order_acquire); \
    if (!call) { \
        call = (type)dlsym(RTLD_NEXT, name); \
        atomic_store_explicit(&next, call, memory_order_release); \
    }

typedef ssize_t (*Write)(int, const void *, size_t);
typedef ssize_t (*WriteAt)(int, const void *, size_t, off64_t);
typedef ssize_t (*WriteParts)(int, const struct iovec *, int);

ssize_t write(int file, const void *bytes, size_t count) {
    NEXT(Write, "write")
    step(file);
    return call(file, bytes, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    NEXT(WriteAt, "pwrite64")
    step(file);
    return call(file, bytes, count, offset);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(WriteParts, "writev")
    step(file);
    return call(file, parts, count);
}
