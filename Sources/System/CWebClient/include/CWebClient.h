// The web client's modules (Sources/Clients/Web) and the files of the demonstration's page (Sources/Clients/Demonstration),
// embedded at build time.
#ifndef CARILLON_WEB_CLIENT_H
#define CARILLON_WEB_CLIENT_H

#include <stddef.h>

/// One module. `bytes` is UTF-8, `length` bytes.
struct carillon_web_module {
    /// The file's name.
    const char *_Nonnull name;
    const char *_Nonnull bytes;
    size_t length;
};

/// How many modules there are.
size_t carillon_web_module_count(void);

/// The modules by name. NULL at the count and beyond.
const struct carillon_web_module *_Nullable carillon_web_module_at(size_t index);

/// How many files the demonstration's page has.
size_t carillon_demonstration_file_count(void);

/// These files by name. NULL at the count and beyond.
const struct carillon_web_module *_Nullable carillon_demonstration_file_at(size_t index);

#endif
