#pragma once

/// The process dies by SIGKILL before its n-th write to a file or socket, where DIE_AT_WRITE is n.
void ck_arm(void);

/// The process dies so before its n-th write from now on; 0: it lives.
void ck_die_at(long number);
