// Linked into the tests, this replaces close(2): a close of a descriptor that is not open ends them, with a backtrace.
//
// Whoever closes a number twice closes, a moment later and on a busy machine, somebody else's connection. Threads hide
// it: the stranger fails, and rarely. The number that is nobody's yet shows the culprit, and almost every time.
