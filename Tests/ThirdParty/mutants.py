"""Hubs that are wrong on purpose: SQL put before the real functions, each an error that a judge must notice."""

_SIGNATURE = "who text, key text, device text, n bigint, type text, payload text, base text, client_time text, tz text"

_BEFORE_APPLY = """
    create schema truth;
    alter function sync.apply(text, text, text, bigint, text, text, text, text, text) set schema truth;
    create function sync.apply({signature}) returns table(status text, answer text)
    language plpgsql volatile security definer as $$
    begin
        insert into sync.account (user_id) values ($1) on conflict do nothing;
        perform from sync.account as a where a.user_id = $1 for update;
        {mutation}
        return query select t.status, t.answer from truth.apply($1, $2, $3, $4, $5, $6, $7, $8, $9) as t;
    end $$;
    grant execute on function sync.apply({signature}) to carillon_hub;
"""


def _before_apply(mutation):
    return _BEFORE_APPLY.format(signature=_SIGNATURE, mutation=mutation)


#: Each key is new to it.
NO_KEY_LOOKUP = _before_apply("delete from sync.action as a where a.user_id = $1 and a.key = $2;")

#: A number that was there before means that it has been done: a restored phone's new actions get lost.
OLD_NUMBER_MEANS_DONE = _before_apply("""
        if $4 <= (select d.last_n from sync.device as d where d.user_id = $1 and d.device_id = $3)
            and not exists (select from sync.action as a where a.user_id = $1 and a.key = $2)
        then
            return query select 'noop', jsonb_build_object('key', $2, 'status', 'noop')::text;
            return;
        end if;
""")

#: A repeat is known by its key alone, whatever is in it.
NO_DIGEST = _before_apply("""
        if exists (select from sync.action as a where a.user_id = $1 and a.key = $2) then
            return query select a.status, (a.answer || '{"replayed": true}')::text
                from sync.action as a where a.user_id = $1 and a.key = $2;
            return;
        end if;
""")

#: What a statement saw of the day is announced at commit, whatever others have committed since.
COUNT_AT_STATEMENT_TIME = """
    create schema judge;
    create table judge.early (xid xid8, who text, day date, counts jsonb, primary key (xid, who, day));
    create function judge.count() returns trigger language plpgsql security definer as $$
    declare
        one record;
    begin
        for one in select distinct d.* from (values (old.user_id, old.local_date), (new.user_id, new.local_date))
            as d (who, day) where d.who is not null
        loop
            insert into judge.early
            select pg_current_xact_id(), one.who, one.day, jsonb_build_object(
                'scheduledCount', count(*) filter (where d.status <> 'cancelled'),
                'takenCount', count(*) filter (where d.status = 'taken'),
                'missedCount', count(*) filter (where d.status = 'missed'),
                'skippedCount', count(*) filter (where d.status = 'skipped'),
                'pendingCount', count(*) filter (where d.status = 'scheduled'))
            from care.dose_occurrence as d where d.user_id = one.who and d.local_date = one.day
            on conflict (xid, who, day) do update set counts = excluded.counts;
        end loop;
        return null;
    end $$;
    create trigger judge after insert or update or delete on care.dose_occurrence
        for each row execute function judge.count();
    create schema truth;
    alter function care.tell_dose(sync.change, tid, bigint, text, jsonb, text) set schema truth;
    create function care.tell_dose(one sync.change, stream tid, last bigint, key text, kept jsonb, kept_for text)
    returns bigint
    language plpgsql as $$
    declare
        told constant bigint := truth.tell_dose(one, stream, last, key, kept, kept_for);
        of_day constant date := (select d.local_date from care.dose_occurrence as d where d.id = one.id);
        early jsonb;
    begin
        select e.counts into early from judge.early as e
        where e.xid = pg_current_xact_id() and e.who = one.user_id and e.day = of_day;
        if told is null or early is null then
            return told;
        end if;
        update care.day_summary as s
        set scheduled_count = (early ->> 'scheduledCount')::int, taken_count = (early ->> 'takenCount')::int,
            missed_count = (early ->> 'missedCount')::int, skipped_count = (early ->> 'skippedCount')::int,
            pending_count = (early ->> 'pendingCount')::int
        where s.user_id = one.user_id and s.date = of_day;
        update sync.event as e
        set data = jsonb_set(e.data, array[m.member], e.data -> m.member || early)
        from (values ('occurrence.updated', 'daySummary'), ('adherence.summary_updated', 'summary')) as m(name, member)
        where e.user_id = one.user_id and e.topic = one.topic and e.o > last and e.name = m.name;
        return told;
    end $$;
"""

#: What is answered may still be lost with the server.
ANSWER_BEFORE_IT_IS_ON_DISK = """
    create or replace function sync.raise_commit() returns void language plpgsql as $$
    begin
        perform pg_catalog.set_config('synchronous_commit', 'off', true);
    end $$;
"""

#: The body of a function of the hub's, with one text in place of another.
_CHANGED = """
    do $mutant$
    declare
        before text := pg_get_functiondef('{function}'::regprocedure);
        after text := replace(before, {old}, {new});
    begin
        if before = after then
            raise exception 'not in %: %', '{function}', {old};
        end if;
        execute after;
    end $mutant$;
"""


def _changed(function, old, new):
    return _CHANGED.format(function=function, old=f"$text${old}$text$", new=f"$text${new}$text$")


#: What was under way when the tail looked, and had a smaller number than what it found, is never seen: `id > cursor`.
ID_BEYOND_THE_CURSOR = _changed(
    "sync.news(pg_snapshot, int)", "pg_snapshot_xip(prev) as x where", "pg_snapshot_xip(prev) as x where false and")

#: A snapshot that claims an event which its data does not show yet: its position was read a moment after.
POSITION_AFTER_THE_SNAPSHOT = _changed(
    "sync.adherence_day(text, date)", "select p.epoch, p.top,", "select p.epoch, p.top + (random() < 0.5)::int,")
