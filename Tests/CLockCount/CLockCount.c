#define _GNU_SOURCE
#include "CLockCount.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static _Thread_local uint64_t taken;

uint64_t cl_locks_taken(void) { return taken; }

#if __has_feature(thread_sanitizer)

bool cl_counts_locks(void) { return false; }

#else

bool cl_counts_locks(void) { return true; }

// Every call in this process comes here first, libraries' too.
int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static _Atomic(int (*)(pthread_mutex_t *)) next;
    int (*lock)(pthread_mutex_t *) = atomic_load_explicit(&next, memory_order_acquire);
    if (!lock) {
        lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
        atomic_store_explicit(&next, lock, memory_order_release);
    }
    taken++;
    return lock(mutex);
}

#endif
