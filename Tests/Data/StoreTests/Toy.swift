import Postgres
import TestDatabase

/// A `sync.apply` with the shape and promises of the real one (once per key, in the order of a device's numbers), whose
/// actions go wrong as a test wants.
enum Toy {
    static func install(in database: Database) throws {
        try database.owner().execute(tables)
        try database.owner().execute(functions)
        try database.owner().execute(sharing)
    }

    /// Actions of these types share a transaction where several wait.
    private static let sharing = """
        INSERT INTO sync.action_type (type, function, topics)
        SELECT type, 'care.act', '{}' FROM unnest('{mark,late,spoil,nap}'::text[]) AS type ON CONFLICT DO NOTHING
        """

    private static let tables = """
        CREATE SCHEMA toy;
        CREATE TABLE toy.account (user_id text PRIMARY KEY, last_n bigint NOT NULL DEFAULT 0);
        CREATE TABLE toy.done (
            serial bigint GENERATED ALWAYS AS IDENTITY, user_id text, key text, n bigint, answer jsonb,
            PRIMARY KEY (user_id, key));
        CREATE TABLE toy.item (id text PRIMARY KEY, n int NOT NULL DEFAULT 0, other text);
        ALTER TABLE toy.item ADD FOREIGN KEY (other) REFERENCES toy.item DEFERRABLE INITIALLY DEFERRED;
        CREATE SEQUENCE toy.starts;
        CREATE SEQUENCE toy.failures;
        CREATE SEQUENCE toy.crossing;
        CREATE SEQUENCE toy.announced;
        """

    /// - `mark`: nothing more.
    /// - `sleep` `{s}`: takes that long.
    /// - `raise` `{code, times, refusal}`: fails with that code, the first `times` times; `refusal` is how its refusal
    ///   fails.
    /// - `cross` `{first, second}`: writes the one row, waits until two have come so far, writes the other.
    /// - `late`: its commit fails.
    /// - `spoil`: fails behind an action of the same transaction.
    /// - `nap` `{ms}`: takes so long.
    private static let functions = """
        CREATE OR REPLACE FUNCTION sync.apply(
            who text, key text, device text, n bigint, type text, payload text, base text, client_time text, tz text)
        RETURNS TABLE(status text, answer text, corrections int) LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_variable
        DECLARE
            last bigint;
            stored jsonb;
            p jsonb;
        BEGIN
            PERFORM nextval('toy.starts');
            INSERT INTO toy.account AS a (user_id) VALUES (who) ON CONFLICT DO NOTHING;
            SELECT a.last_n INTO last FROM toy.account AS a WHERE a.user_id = who FOR UPDATE;
            SELECT d.answer INTO stored FROM toy.done AS d WHERE d.user_id = who AND d.key = apply.key;
            IF FOUND THEN
                RETURN QUERY SELECT stored->>'status', (stored || '{"replayed":true}')::text, 0;
                RETURN;
            END IF;
            IF n <> last + 1 THEN
                RETURN QUERY SELECT 'retry', jsonb_build_object('key', key, 'status', 'retry', 'code', 'out_of_order',
                    'expected', last + 1)::text, 0;
                RETURN;
            END IF;
            stored := jsonb_build_object('key', key, 'status', 'applied', 'server', pg_backend_pid());
            p := payload::jsonb;
            IF type = 'sleep' THEN
                PERFORM pg_sleep((p->>'s')::float8);
            ELSIF type = 'raise' THEN
                IF nextval('toy.failures') <= (p->>'times')::int THEN
                    RAISE EXCEPTION 'aspirin' USING ERRCODE = p->>'code';
                END IF;
            ELSIF type = 'cross' THEN
                UPDATE toy.item AS i SET n = i.n + 1 WHERE i.id = p->>'first';
                PERFORM nextval('toy.crossing');
                WHILE (SELECT last_value FROM toy.crossing) < 2 LOOP
                    PERFORM pg_sleep(0.005);
                END LOOP;
                UPDATE toy.item AS i SET n = i.n + 1 WHERE i.id = p->>'second';
            ELSIF type = 'spoil' THEN
                IF EXISTS (SELECT FROM toy.done AS d WHERE d.user_id = who AND d.xmin = pg_current_xact_id()::xid) THEN
                    RAISE EXCEPTION 'aspirin' USING ERRCODE = p->>'code';
                END IF;
            ELSIF type = 'nap' THEN
                PERFORM pg_sleep((p->>'ms')::float8 / 1000);
            ELSIF type = 'late' THEN
                INSERT INTO toy.item VALUES (key, 1, 'nowhere');
            END IF;
            IF n IS NOT NULL THEN
                UPDATE toy.account AS a SET last_n = n WHERE a.user_id = who;
            END IF;
            INSERT INTO toy.done (user_id, key, n, answer) VALUES (who, key, n, stored);
            RETURN QUERY SELECT stored->>'status', stored::text, 0;
        END
        $$;
        CREATE OR REPLACE FUNCTION sync.refuse(
            who text, key text, device text, n bigint, type text, payload text, base text, client_time text, tz text)
        RETURNS TABLE(status text, answer text) LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        #variable_conflict use_variable
        DECLARE
            stored jsonb := jsonb_build_object('key', key, 'status', 'rejected', 'code', 'invalid');
        BEGIN
            IF payload::jsonb ? 'refusal' THEN
                RAISE EXCEPTION 'aspirin' USING ERRCODE = payload::jsonb->>'refusal';
            END IF;
            INSERT INTO toy.account AS a (user_id) VALUES (who) ON CONFLICT DO NOTHING;
            UPDATE toy.account AS a SET last_n = coalesce(n, a.last_n) WHERE a.user_id = who;
            INSERT INTO toy.done (user_id, key, n, answer) VALUES (who, key, n, stored);
            RETURN QUERY SELECT 'rejected', stored::text;
        END
        $$;
        CREATE OR REPLACE FUNCTION sync.announce() RETURNS void LANGUAGE sql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
            SELECT nextval('toy.announced'), pg_notify('sync', '');
            SELECT NULL::void
        $$;
        GRANT EXECUTE ON FUNCTION sync.apply(text, text, text, bigint, text, text, text, text, text),
            sync.refuse(text, text, text, bigint, text, text, text, text, text), sync.announce() TO carillon_hub
        """
}
