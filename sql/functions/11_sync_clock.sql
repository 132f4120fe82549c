-- sync.clock: the time by which actions, triggers and events go. Tests replace it. No locks.
create or replace function sync.clock() returns timestamptz
language sql volatile
as $$
    select pg_catalog.clock_timestamp()
$$;

-- sync.raise_commit: raises synchronous_commit for this transaction where it is weaker than `on`, never lowers it: what
-- was told (an offset, an action's answer) must not be lost with the server. No locks.
create or replace function sync.raise_commit() returns void
language plpgsql
as $$
begin
    if pg_catalog.current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
        perform pg_catalog.set_config('synchronous_commit', 'on', true);
    end if;
end
$$;
