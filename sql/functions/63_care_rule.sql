-- The tables of transitions: what becomes of an intent, by the dose as the server has it (all null: the user has none of
-- this id). Nothing is written here. No locks.

-- care.early: how long before its time a dose that counts as missed may have been taken.
create or replace function care.early() returns interval
language sql immutable
as $$
    select interval '12 hours'
$$;

-- care.notes_max: how many notes of actions a dose keeps.
create or replace function care.notes_max() returns int
language sql immutable parallel safe
begin atomic
    select 1000;
end;

-- care.notes_full: whether a dose has as many. No locks: a writer of notes holds the dose.
create or replace function care.notes_full(who text, dose text) returns boolean
language sql stable
as $$
    select exists (select from care.dose_note as n where n.user_id = who and n.occurrence_id = dose
                   offset care.notes_max() - 1)
$$;

-- care.open_since: whether nobody has acted on a dose since an instant: it is scheduled, or was missed between that and now. What
-- a person did then is judged as if it had been told at once. No locks.
create or replace function care.open_since(d care.dose_occurrence, clock timestamptz, since timestamptz) returns boolean
language sql stable
begin atomic
    select (d).status = 'scheduled' or (d).status = 'missed' and (d).window_end + care.grace() > since
        and (d).window_end + care.grace() <= clock;
end;

-- care.day_has_come: whether the day of a dose has come at an instant: in the dose's zone, or in the user's, by which the
-- user's list of today goes. No locks.
create or replace function care.day_has_come(d care.dose_occurrence, at timestamptz) returns boolean
language plpgsql stable
as $$
begin
    return d.local_date <= (at at time zone d.tz)::date
        or d.local_date <= (at at time zone care.zone_of(d.user_id))::date;
end
$$;

-- care.is_of_today: whether a dose is in the list of a day that is today in a zone: it falls on that day there, or it is due now:
-- its time has come, and its window has not ended. A dose of another zone has another date there: both dates are of one
-- instant, and what a writer has moved stays moved. Nobody asked for an intake as needed, so it is never due. Callers look
-- at dates of three days before and after: zones are 26 hours apart at most, and a window has a day. No locks.
create or replace function care.is_of_today(d care.dose_occurrence, day date, zone text, clock timestamptz) returns boolean
language sql stable
as $$
    select (d).local_date + (((d).scheduled_at at time zone zone)::date - ((d).scheduled_at at time zone (d).tz)::date) = day
        or (d).scheduled_at <= clock and (d).window_end > clock and not (d).as_needed
$$;

-- care.is_in_list: whether a dose is in the user's list of today at an instant. One of a zone ahead of the user's may have
-- tomorrow's date everywhere, and is there all the same. No locks.
create or replace function care.is_in_list(d care.dose_occurrence, at timestamptz) returns boolean
language plpgsql stable
as $$
declare
    zone constant text := care.zone_of(d.user_id);
    today constant date := (at at time zone zone)::date;
begin
    return d.local_date between today - 3 and today + 3 and care.is_of_today(d, today, zone, at);
end
$$;

-- care.untimely: the member `path` that says when a dose was taken, where that is more than a day before its window and
-- before its day (which may have 25 hours); else null. What was not said of this dose (an action that a resolve names) may as
-- well be a day before the person acts: a dose far ahead can be marked. `path` null: nobody said when, so it was when the
-- person acted. No locks.
drop function if exists care.untimely(timestamptz, text, care.dose_occurrence, timestamptz);
create or replace function care.untimely(taken_at timestamptz, path text, d care.dose_occurrence, acted timestamptz)
returns text
language plpgsql stable
as $$
begin
    if taken_at < least(d.window_start, d.scheduled_at, case when path = 'payload.of' then acted end)
                  - interval '1 day'
        and not care.day_has_come(d, taken_at)
    then
        return path;
    end if;
    return null;
end
$$;

-- care.rule_act: the five actions on a dose, and the items of bulkMarkAll. A note goes with a status that is applied or
-- already so, and alone it is always added.
--
-- The rule of days: nobody takes a dose of a later day than the one on which the person acts (`i.acted_at`), unless it is in
-- today's list, or told to include the future (`any`). What criteria mean (`due`) must be due by then, and a dose that is
-- missed or made up must have ended by then. The same holds however late the action comes: a dose that was marked missed meanwhile is judged as if it
-- were open. Nobody is punished for a late synchronisation: such a dose becomes taken, if it was taken on its day or at most
-- 12 hours before its window, and not too late after it.
--
-- The rule of base.rev (`i.rev`): a status is set only while the dose's is the one that the device saw, whatever else of the
-- dose has changed. It does not matter where the dose is so already, nor where it is missed: that says that nobody has
-- told anything, and stands in nobody's way.
create or replace function care.rule_act(i care.intent, d care.dose_occurrence, clock timestamptz) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
    code text;
begin
    r.dose := d;
    if i.status is not null then
        if i.status = 'taken' and i.kind <> 'any' and d.status in ('scheduled', 'missed')
            and not care.day_has_come(d, i.acted_at) and not care.is_in_list(d, i.acted_at)
        then
            r.status := 'rejected';
            r.code := 'not_due';
            return r;
        end if;
        r.path := care.untimely(i.taken_at, i.time_path, d, i.acted_at);
        if r.path is not null then
            r.status := 'rejected';
            r.code := 'invalid';
            return r;
        end if;
        code := case
            when d.status = 'cancelled' then 'gone'
            when i.status in ('missed', 'made_up') and care.open_since(d, clock, i.acted_at)
                then case when i.acted_at < d.window_end then 'not_due' else 'applied' end
            when d.status = i.status then 'noop'
            when i.kind = 'due' and d.scheduled_at > i.acted_at and care.open_since(d, clock, i.acted_at) then 'not_due'
            when i.status = 'taken' then
                case d.status when 'scheduled' then 'applied'
                              when 'missed' then
                                  case when i.taken_at <= d.window_end + care.grace()
                                           and (i.taken_at >= least(d.window_start, d.scheduled_at) - care.early()
                                                or care.day_has_come(d, i.taken_at)) then 'applied' else 'late' end
                              else 'state' end
            when i.status = 'missed' then 'state'
            when i.status = 'made_up' then
                case d.status when 'missed' then 'applied' when 'taken' then 'noop' else 'state' end
            when d.status in ('scheduled', 'missed') then 'applied'
            else 'state' end;
        if code = 'applied' and d.status <> 'missed' and d.status_rev > i.rev then
            code := 'state';
        end if;
        if code = 'applied' then
            r.dose.status := i.status;
            r.dose.taken_at := i.taken_at;
            r.dose.taken_offset := i.taken_offset;
            r.dose.reason := i.reason;
        elsif code = 'not_due' then
            r.status := 'rejected';
            r.code := code;
            return r;
        elsif code <> 'noop' then
            r.status := 'conflict';
            r.code := code;
            return r;
        end if;
    end if;
    r.status := coalesce(code, 'applied');
    if i.note is not null then
        r.status := 'applied';
        r.note := i.note;
        r.dose.note := i.note;
    end if;
    return r;
end
$$;

-- care.rule_undo: each part comes back if nothing has touched it since, and both or none. A note stays where another action
-- has added the same one since, or before with none between: it goes with the last of them.
create or replace function care.rule_undo(i care.intent, d care.dose_occurrence) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
begin
    r.dose := d;
    r.code := case
        when d.status = 'cancelled' then 'gone'
        when i.kind = 'late' then 'late'
        when d.status_rev <> i.status_rev or d.note_rev <> i.note_rev or d.created_at <> i.born then 'superseded' end;
    r.status := case when r.code is null then 'applied' else 'conflict' end;
    if r.code is null and i.status_rev is not null then
        r.dose.status := i.status;
        r.dose.taken_at := i.taken_at;
        r.dose.taken_offset := i.taken_offset;
        r.dose.reason := i.reason;
    end if;
    if r.code is null and i.note_rev is not null and not exists (
        select from care.same_notes(d, i.note_rev) as n where n.key <> i.note_key
    ) then
        r.dose.note := i.note;
    end if;
    return r;
end
$$;

-- care.rule_resolve: keep: the intent, whatever the status is; merge: its note alone; edit: the fields the user chose. Only
-- if nobody has changed the status since `rev`, and the dose is the one that the user saw.
create or replace function care.rule_resolve(i care.intent, d care.dose_occurrence, clock timestamptz) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
begin
    r.dose := d;
    if (d.status_rev > i.rev or d.created_at <> i.born) and (i.kind = 'keep' and i.status is not null
                                 or i.kind = 'edit' and i.merged ?| array['status', 'takenAt', 'reason']) then
        r.status := 'conflict';
        r.code := 'state';
        return r;
    end if;
    r.note := case i.kind when 'edit' then coalesce(i.merged ->> 'note', i.note) else i.note end;
    if i.kind = 'keep' and i.status is not null then
        r.path := care.untimely(i.taken_at, i.time_path, d, i.acted_at);
        r.dose.status := i.status;
        r.dose.taken_at := i.taken_at;
        r.dose.taken_offset := i.taken_offset;
        r.dose.reason := i.reason;
    elsif i.kind = 'edit' and i.merged ?| array['status', 'takenAt', 'reason'] then
        r.dose.status := coalesce(i.merged ->> 'status', d.status);
        if (r.dose).status in ('taken', 'made_up') then
            if i.merged ? 'takenAt' then
                r.dose.taken_at := least(care.time_of(i.merged -> 'takenAt'), clock);
                r.dose.taken_offset := care.offset_of(i.merged -> 'takenAt');
            elsif d.taken_at is null then
                r.dose.taken_at := coalesce(i.taken_at, i.acted_at);
                r.dose.taken_offset := i.taken_offset;
            end if;
            r.path := case when i.merged ? 'takenAt'
                                then care.untimely((r.dose).taken_at, 'payload.merged.takenAt', d, i.acted_at)
                           when d.taken_at is null then care.untimely(i.taken_at, i.time_path, d, i.acted_at) end;
        else
            r.dose.taken_at := null;
            r.dose.taken_offset := null;
        end if;
        r.dose.reason := coalesce(i.merged ->> 'reason',
                                  case when (r.dose).status in ('made_up', 'skipped') then d.reason end);
    end if;
    if r.path is not null then
        r.status := 'rejected';
        r.code := 'invalid';
        return r;
    end if;
    if r.note is not null then
        r.dose.note := r.note;
    end if;
    r.status := case when r.note is not null
                         or ((r.dose).status, (r.dose).taken_at, (r.dose).reason, (r.dose).taken_offset)
                             is distinct from (d.status, d.taken_at, d.reason, d.taken_offset)
                     then 'applied' else 'noop' end;
    return r;
end
$$;

-- care.rule: the table that the intent's kind asks for. A dose that has all the notes it may have takes no further one; a
-- status is not refused for the note that comes with it.
create or replace function care.rule(i care.intent, d care.dose_occurrence, clock timestamptz) returns care.ruling
language plpgsql
as $$
declare
    r care.ruling;
begin
    if i.kind = 'accept' then
        r.dose := d;
        r.status := 'noop';
        return r;
    elsif d.id is null then
        r.status := 'conflict';
        r.code := 'gone';
        return r;
    end if;
    case
        when i.kind in ('act', 'due', 'any') then r := care.rule_act(i, d, clock);
        when i.kind in ('undo', 'late') then return care.rule_undo(i, d);
        else r := care.rule_resolve(i, d, clock);
    end case;
    if r.status = 'applied' and r.note is not null and i.status is null and care.notes_full(d.user_id, d.id) then
        r.status := 'rejected';
        r.code := 'too_many';
    end if;
    return r;
end
$$;
