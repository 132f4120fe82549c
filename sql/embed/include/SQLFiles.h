// The SQL of this package, embedded at build time: what `carillon migrate` and `carillon dev` run.
#ifndef CARILLON_SQL_FILES_H
#define CARILLON_SQL_FILES_H

#include <stddef.h>

/// What a file is, and with that who runs it when.
enum carillon_sql_kind {
    /// Creates the roles; by a superuser, before all else.
    carillon_sql_roles = 0,
    /// The migrator's own tables; by the owner, at every migration.
    carillon_sql_bootstrap = 1,
    /// A numbered, immutable step; by the owner, once, in one transaction.
    carillon_sql_migration = 2,
    /// Functions; by the owner, all in one transaction in this order, whenever their joint checksum changed.
    carillon_sql_function = 3,
    /// The demonstration data; by the owner, on demand. Contains its own BEGIN and COMMIT.
    carillon_sql_demo = 4,
};

/// One file. `bytes` is UTF-8, `length` bytes, followed by a NUL that `length` does not count.
struct carillon_sql_file {
    enum carillon_sql_kind kind;
    /// The number before the underscore of a migration, 0 for all other kinds.
    int version;
    /// The file's name without its folder.
    const char *_Nonnull name;
    const char *_Nonnull bytes;
    size_t length;
};

/// How many files there are.
size_t carillon_sql_file_count(void);

/// The files in the order roles, bootstrap, migrations by version, functions by name, demo. NULL at the count and beyond.
const struct carillon_sql_file *_Nullable carillon_sql_file_at(size_t index);

#endif
