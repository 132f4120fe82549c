import Postgres
import Store
import TestDatabase

/// A database with a scripted `sync.apply`: an action's type is the status of its answer, and type `held` waits between
/// `hold` and `release`.
package struct ToyActions {
    package let database: Database
    private let owner: BlockingConnection

    package init() throws {
        database = try Cluster.shared.get().database()
        owner = try database.owner()
        try owner.execute(
            """
            CREATE OR REPLACE FUNCTION sync.apply(
                who text, key text, device text, n bigint, type text, payload text, base text, client_time text, tz text)
            RETURNS TABLE (status text, answer text, corrections int) LANGUAGE plpgsql SECURITY DEFINER AS $$
            #variable_conflict use_variable
            BEGIN
                IF type = 'held' THEN PERFORM pg_advisory_xact_lock(1); END IF;
                status := CASE WHEN type IN ('held', 'bulkMarkAll') THEN 'applied' ELSE type END;
                answer := jsonb_strip_nulls(jsonb_build_object(
                    'key', key, 'status', status, 'message', CASE WHEN status > 'b' THEN 'a reason' END,
                    'code', CASE status WHEN 'retry' THEN 'out_of_order' WHEN 'conflict' THEN 'state'
                        WHEN 'rejected' THEN 'invalid' END,
                    'expected', CASE status WHEN 'retry' THEN 5 END,
                    'path', CASE status WHEN 'rejected' THEN coalesce(payload::jsonb ->> 'wrong', 'payload.x') END,
                    'conflict', CASE status WHEN 'conflict' THEN '{"options":[]}'::jsonb END,
                    'result', CASE WHEN status IN ('applied', 'noop', 'partial') THEN jsonb_build_object(
                        'who', who, 'device', device, 'n', n, 'payload', payload::jsonb, 'base', base::jsonb,
                        'clientTime', client_time::jsonb, 'tz', tz) END,
                    'positions', CASE WHEN status <> 'rejected' THEN '{"user.u1.adherence":{"epoch":"e","offset":1}}'::jsonb
                        END,
                    'replayed', CASE WHEN payload = '{"again":1}' THEN true END))::text;
                RETURN NEXT;
            END $$;
            CREATE OR REPLACE FUNCTION sync.announce() RETURNS void LANGUAGE sql AS '';
            GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sync TO carillon_hub;
            """)
    }

    /// A store of this database, with a long lock timeout.
    package var configuration: StoreConfiguration {
        var configuration = StoreConfiguration(connectionString: database.hub)
        configuration.connections = 2
        configuration.lockTimeout = .seconds(4)
        return configuration
    }

    /// From now on actions of type `held` wait.
    package func hold() throws {
        try owner.execute("SELECT pg_advisory_lock(1)")
    }

    package func release() throws {
        try owner.execute("SELECT pg_advisory_unlock(1)")
    }

    /// The number of waiting actions.
    package func heldCount() throws -> Int {
        let rows = try owner.query(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = "
                + "(SELECT oid FROM pg_database WHERE datname = current_database())")
        return rows.first?.first.flatMap { $0 }.flatMap { Int($0) } ?? 0
    }
}
