#pragma once

#include <stdbool.h>
#include <stdint.h>

/// False under the thread sanitizer, which has a lock function of its own.
bool cl_counts_locks(void);

/// How often this thread has taken a mutex so far, anybody's: of the product, of Swift's runtime, of libraries.
uint64_t cl_locks_taken(void);
