-- sync.job: runs one batch of a job: at most `batch` of what is to be done by `clock` (null: now). `done`: how many it did;
-- `more`: whether there may be more, so that the caller goes on at once. Nothing is done while another session runs the same
-- job. Lock order: the job's advisory lock, which is only tried, then what the job takes.
create or replace function sync.job(name text, batch int, clock timestamptz, out done bigint, out more boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    at constant timestamptz := coalesce(clock, sync.clock());
begin
    if (batch > 0) is not true then
        raise exception 'batch must be positive' using errcode = 'invalid_parameter_value';
    elsif not pg_try_advisory_xact_lock(hashtextextended('carillon.job.' || name, 0)) then
        done := 0;
        more := false;
        return;
    end if;
    case name
        when 'plan_doses' then select j.done, j.more into done, more from care.job_plan_doses(batch, at) as j;
        when 'miss_doses' then select j.done, j.more into done, more from care.job_miss_doses(batch, at) as j;
        when 'retain_events' then select j.done, j.more into done, more from care.job_retain_events(batch, at) as j;
        when 'retain_actions' then select j.done, j.more into done, more from care.job_retain_actions(batch, at) as j;
        when 'spread_products' then select j.done, j.more into done, more from care.job_spread_products(batch, at) as j;
        when 'fire_reminders' then select j.done, j.more into done, more from care.job_fire_reminders(batch, at) as j;
        when 'retain_feedback' then select j.done, j.more into done, more from care.job_retain_feedback(batch, at) as j;
        else
            raise exception 'there is no job of this name' using errcode = 'invalid_parameter_value';
    end case;
end
$$;

-- sync.job_lag: for how many seconds the oldest of a job's work has been due by `clock` (null: now); null for a job of which
-- nobody can tell. No locks.
create or replace function sync.job_lag(name text, clock timestamptz) returns double precision
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return case name when 'miss_doses' then care.miss_lag(coalesce(clock, sync.clock()))
                     when 'plan_doses' then care.plan_lag(coalesce(clock, sync.clock()))
                     when 'fire_reminders' then care.fire_lag(coalesce(clock, sync.clock())) end;
end
$$;
