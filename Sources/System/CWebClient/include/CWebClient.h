// Files for browsers, embedded at build time: the web client's modules (Sources/Clients/Web), and the pages of the
// demonstration (Sources/Clients/Demonstration) and of the console (Sources/Clients/Console).
#ifndef CARILLON_WEB_CLIENT_H
#define CARILLON_WEB_CLIENT_H

#include <stddef.h>

/// One file.
struct carillon_web_file {
    /// Where it is served, such as `/client/carillon.js`.
    const char *_Nonnull path;
    /// UTF-8, with a zero at its end.
    const char *_Nonnull text;
};

/// How many files there are.
size_t carillon_web_file_count(void);

/// The files. NULL at the count and beyond.
const struct carillon_web_file *_Nullable carillon_web_file_at(size_t index);

#endif
