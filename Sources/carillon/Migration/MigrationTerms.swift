import Postgres

/// What a migration needs of the database and of its own session, whatever the operator has set.
extension Migrator {
    /// Sets what the SQL files count on.
    func prepareSession() throws(Failure) {
        try connection.asking("the session cannot be set up") { () throws(StatementError) in
            try connection.execute(
                """
                set default_transaction_isolation = 'read committed';
                set default_transaction_read_only = off;
                set statement_timeout = 0;
                set idle_in_transaction_session_timeout = 0;
                """)
        }
        // A superuser's alone. Ours is checked before a writer's: if there is a deadlock, the migrator gives way, and
        // an autovacuum gives way to the migrator.
        try? connection.execute("set deadlock_timeout = '100ms'")
    }

    /// User ids and JSON may hold any character, and both are compared byte by byte.
    func checkEncoding() throws(Failure) {
        let found = try connection.asking("the database's encoding cannot be read") { () throws(StatementError) in
            try connection.query("select current_setting('server_encoding'), quote_ident(current_database())").first
        }
        guard let encoding = found?.first ?? nil, encoding != "UTF8" else { return }
        let name = (found?.last ?? nil) ?? ""
        throw Failure(
            "the database \(name) has the encoding \(encoding), and Carillon needs UTF8: restore it into a new one, made "
                + "by: createdb -T template0 -E UTF8 NAME")
    }

    /// The second migration makes it, unless somebody has; functions call it as the owner.
    func checkExtension() throws(Failure) {
        let owner = DevelopmentCluster.owner
        let found = try connection.asking("the extensions cannot be read") { () throws(StatementError) in
            try connection.query(
                """
                select quote_ident(n.nspname), has_schema_privilege(n.oid, 'usage') from pg_available_extensions as a
                left join pg_extension as e on e.extname = a.name left join pg_namespace as n on n.oid = e.extnamespace
                where a.name = 'pgcrypto'
                """
            ).first
        }
        guard let found else {
            throw Failure(
                "the server does not have the extension pgcrypto: install PostgreSQL's contrib package "
                    + "(part of postgresql on Debian)")
        }
        guard found.last == "f", let schema = found.first ?? nil else { return }
        throw Failure(
            "the extension pgcrypto is in the schema \(schema), which \(owner) may not use. As that schema's owner: "
                + "GRANT USAGE ON SCHEMA \(schema) TO \(owner)")
    }
}
