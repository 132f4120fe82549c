// What keeps tests, which share one process, from one another's descriptors.
//
// Linked into the tests, this replaces close(2): a close of a descriptor that is not open ends them, with a backtrace.
// Code that closes a number twice closes, a moment later and on a busy machine, another connection. Threads hide
// it: the stranger fails, and rarely. The number that is nobody's yet shows the culprit, and almost every time.
#pragma once

#include <spawn.h>
#include <stdbool.h>

// Whether close is guarded: not under ThreadSanitizer, which has a close of its own and follows descriptors by it.
bool cd_is_guarding(void);

// Has the child start without our descriptors from `fd` on: it would keep other tests' connections open.
int cd_close_from(posix_spawn_file_actions_t *actions, int fd);
