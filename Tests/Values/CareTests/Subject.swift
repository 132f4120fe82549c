import Care
import JSON
import Postgres
import TestDatabase

/// A database whose clock is a setting, with functions that play a history in one round trip.
final class Subject {
    private let connection: BlockingConnection
    /// The epoch of its streams, as clients see it.
    let epoch: String

    /// A fresh database, changed by `mutant`.
    init(_ mutant: Mutant? = nil) throws {
        connection = try Cluster.shared.get().database().owner()
        try connection.execute(Self.functions)
        for (name, title) in Self.productNames {
            _ = try connection.query("insert into care.product (id, name) values ($1, $2)", [name, title])
        }
        if let mutant { try mutant.install(connection) }
        let position = try connection.query("select epoch from sync.positions('{x}', '{adherence}')")
        epoch = position.first?.first.flatMap { $0 } ?? ""
    }

    /// The catalogue.
    static let productNames = ["p1": "Magnesium", "p2": "Vitamin \"D\" ü"]

    /// A model of this database before a history.
    func model() -> CareModel { Self.model(epoch: epoch) }

    /// A model of a database with that epoch.
    static func model(epoch: String) -> CareModel {
        var model = CareModel(epoch: epoch, productNames: productNames) { zone, _ in zones[zone] }
        for user in HistoryGenerator.users { model.move(user, to: "UTC") }
        return model
    }

    /// The histories' zones: without daylight saving time, so that the model needs no rules.
    static let zones = ["UTC": 0, "Etc/GMT+5": -18_000, "Etc/GMT-10": 36_000, "Etc/GMT-3": 10_800]

    /// Plays a history in a transaction that is rolled back. Returns each step's answer, and then the rows of `users`.
    func play(_ steps: [Step], users: [Identifier]) throws -> [String] {
        guard !steps.isEmpty else { return [] }
        try connection.execute("begin")
        defer { try? connection.execute("rollback") }
        let rows = try connection.query(
            "select line from test.run($1::jsonb, $2::jsonb)",
            [
                JSONTree.array(steps.map(\.tree)).canonicalText,
                JSONTree.array(users.map { .string($0.text) }).canonicalText,
            ])
        return rows.map { $0.first.flatMap { $0 } ?? "" }
    }

    /// Frees what rolled-back histories left.
    func vacuum() throws {
        try connection.execute("vacuum")
    }

    private static let functions = #"""
        create schema test;

        create or replace function sync.clock() returns timestamptz
        language sql volatile as $$ select pg_catalog.current_setting('test.clock')::timestamptz $$;

        -- One step: an action, or what a writer outside of the hub does.
        create function test.step(s jsonb) returns text language plpgsql
        set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
        declare
            r record;
            ids text[];
        begin
            if s ->> 'kind' = 'action' then
                select * into r from sync.apply(s ->> 'user', s ->> 'key', s ->> 'device', (s ->> 'n')::bigint,
                    s ->> 'type', s ->> 'payload', s ->> 'base', s ->> 'clientTime', s ->> 'tz');
                return r.status || e'\n' || (case when r.answer::jsonb ? 'message'
                    then r.answer::jsonb || '{"message": "…"}' else r.answer::jsonb end)::text;
            end if;
            perform set_config('sync.key', '', true), set_config('sync.device', '', true);
            ids := array(select jsonb_array_elements_text(s -> 'ids'));
            case s ->> 'kind'
                when 'zone' then
                    insert into care.user_settings (user_id, zone) values (s ->> 'user', s ->> 'zone')
                    on conflict (user_id) do update set zone = excluded.zone;
                when 'insert' then
                    insert into care.dose_occurrence (id, user_id, schedule_id, product_id, status, taken_at, reason,
                        note, scheduled_at, tz, local_date, local_time, window_start, window_end, created_at, updated_at)
                    values (s ->> 'id', s ->> 'user', s ->> 'schedule', s ->> 'product', s ->> 'status',
                        (s ->> 'takenAt')::timestamptz, s ->> 'reason', s ->> 'note',
                        (s ->> 'scheduledAt')::timestamptz, s ->> 'tz', (s ->> 'day')::date, '00:00',
                        (s ->> 'windowStart')::timestamptz, (s ->> 'windowEnd')::timestamptz,
                        (s ->> 'at')::timestamptz, (s ->> 'at')::timestamptz)
                    on conflict (id) do nothing;
                when 'update' then
                    update care.dose_occurrence
                    set status = case when s ? 'set' then s #>> '{set,status}' else status end,
                        taken_at = case when s ? 'set' then (s #>> '{set,takenAt}')::timestamptz else taken_at end,
                        reason = case when s ? 'set' then s #>> '{set,reason}' else reason end,
                        note = case when s ? 'note' then s ->> 'note' else note end,
                        local_date = coalesce((s ->> 'day')::date, local_date)
                    where id = any(ids) and user_id = s ->> 'user';
                when 'delete' then
                    delete from care.dose_occurrence where id = any(ids) and user_id = s ->> 'user';
                when 'move' then
                    update care.dose_occurrence set user_id = s ->> 'taker'
                    where id = any(ids) and user_id = s ->> 'user';
                when 'epoch' then
                    update sync.meta set epoch = s ->> 'epoch';
            end case;
            set constraints sync.flush immediate;
            set constraints sync.flush deferred;
            return null;
        end
        $$;

        -- A history: a line for each step, then one for the rows of each user.
        create function test.run(steps jsonb, users jsonb) returns table(line text) language plpgsql
        set plan_cache_mode = force_generic_plan set enable_seqscan = off set timezone = 'UTC' as $$
        declare
            s jsonb;
            who text;
            before bigint;
            said text;
        begin
            perform set_config('sync.notify', 'off', true);
            for s in select e from jsonb_array_elements(steps) with ordinality as t(e, n) order by n loop
                perform set_config('test.clock', s ->> 'at', true);
                who := s ->> 'user';
                before := coalesce((select t.top from sync.stream as t
                                    where t.user_id = who and t.topic = 'adherence'), 0);
                begin
                    said := test.step(s);
                exception when others then
                    said := 'ERROR ' || sqlstate || ' ' || sqlerrm;
                end;
                line := concat_ws(e'\n', said, (
                    select string_agg(e.name || ' ' || e.data, e'\n' order by e.o) from sync.event as e
                    where e.user_id = who and e.topic = 'adherence' and e.o > before));
                return next;
            end loop;
            for who in select jsonb_array_elements_text(users) loop
                line := test.rows(who);
                return next;
            end loop;
        end
        $$;

        create function test.rows(who text) returns text language sql as $$
            select string_agg(row::text, e'\n' order by part, one collate "C", two collate "C") from (
                select 1 as part, d.id as one, '' as two, jsonb_build_array(
                    'dose', care.dose_json(d), d.status_rev, d.note_rev, d.changed_key, d.changed_device) as row
                from care.dose_occurrence as d where d.user_id = who
                union all
                select 2, occurrence_id, key, jsonb_build_array('note', occurrence_id, key, text)
                from care.dose_note where user_id = who
                union all
                select 3, device_id, '', jsonb_build_array('device', device_id, last_n)
                from sync.device where user_id = who
                union all
                select 4, date::text, '', jsonb_build_array('day', jsonb_build_object(
                    'date', to_char(date, 'YYYY-MM-DD'), 'scheduledCount', scheduled_count, 'takenCount', taken_count,
                    'missedCount', missed_count, 'madeUpCount', made_up_count, 'skippedCount', skipped_count,
                    'pendingCount', pending_count, 'adherencePct', adherence_pct, 'onTimePct', on_time_pct), run, best)
                from care.day_summary where user_id = who
                union all
                select 5, date::text, '', jsonb_build_array('shown', (
                    select body::jsonb -> 'summary' from sync.adherence_day(who, date)))
                from care.day_summary where user_id = who
                union all
                select 6, '', '', jsonb_build_array('actions', count(*),
                    coalesce((select top from sync.stream where user_id = who and topic = 'adherence'), 0))
                from sync.action where user_id = who
                union all
                select 7, '', '', jsonb_build_array('stats', care.stats(who))
            ) as rows
        $$;
        """#
}
