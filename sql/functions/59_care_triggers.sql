-- The triggers of the app's own tables. One that stands as it should is left alone, so that a rerun locks no table.
-- `belong` and `bound` come before `bump_rev` by name: what they put right is not a change. `details` comes after it, and has
-- its rev.
-- Locks: a table (SHARE ROW EXCLUSIVE) only where a trigger is missing, another or disabled.
do $do$
declare
    t record;
begin
    set local quote_all_identifiers = off;
    for t in
        select 'bump_rev' as name, 'BEFORE UPDATE' as event, place::text, 'bump_rev()' as call, 'A'::"char" as enabled,
               'FOR EACH ROW' as scope
        from unnest('{user_settings,product,stack,schedule,reminder_rule,reminder_occurrence}'::text[]) as place
        union all
        select 'bump_rev', 'BEFORE UPDATE', 'dose_occurrence', 'bump_dose()', 'A', 'FOR EACH ROW'
        union all
        select 'details',
               'BEFORE UPDATE OF schedule_id, product_id, product_name, strength, form, dose, as_needed, tz, local_date, '
               || 'local_time, window_start, window_end, details_rev', 'dose_occurrence', 'bump_details()', 'A', 'FOR EACH ROW'
        union all
        select *, 'O', 'FOR EACH ROW' from (values
            ('complete', 'BEFORE INSERT', 'dose_occurrence', 'complete_dose()'),
            ('zone', 'BEFORE UPDATE OF tz', 'dose_occurrence', $$check_zone('tz')$$),
            ('complete', 'BEFORE INSERT', 'reminder_rule', 'complete_reminder()'),
            ('zone', 'BEFORE INSERT OR UPDATE OF timezone', 'reminder_rule', $$check_zone('timezone')$$),
            ('bound', 'BEFORE UPDATE', 'reminder_rule', 'silence_reminder()'),
            ('silence', 'BEFORE INSERT', 'reminder_rule', 'silence_reminder()'),
            ('move', 'AFTER UPDATE OF user_id', 'reminder_rule', 'move_reminder()'),
            ('follow_schedule', 'AFTER UPDATE', 'schedule', 'follow_schedule()'),
            ('pace_reminders', 'AFTER INSERT OR UPDATE OF user_id, product_id, stack_id, enabled, ends_on', 'schedule',
             'pace_reminders()'),
            ('pace_gone', 'BEFORE DELETE', 'schedule', 'pace_reminders()'),
            ('complete', 'BEFORE INSERT', 'reminder_occurrence', 'complete_reminder_occurrence()'),
            ('belong', 'BEFORE UPDATE OF rule_id, user_id, original_local, day, moved_to, moved_local, snoozed_until',
             'reminder_occurrence', 'complete_reminder_occurrence()'),
            ('zone', 'BEFORE INSERT OR UPDATE OF zone', 'user_settings', $$check_zone('zone')$$),
            ('follow_zone', 'AFTER INSERT OR UPDATE OF zone', 'user_settings', 'follow_zone()'),
            ('complete', 'BEFORE INSERT', 'schedule', 'complete_schedule()'),
            ('belong', 'BEFORE UPDATE OF user_id, product_id, stack_id, timezone, tz_mode', 'schedule',
             'complete_schedule()'),
            ('zone', 'BEFORE INSERT OR UPDATE OF timezone', 'schedule', $$check_zone('timezone')$$),
            ('follow_product', 'AFTER UPDATE', 'product', 'follow_product()'),
            ('follow_dose', 'AFTER UPDATE OF dose', 'schedule', 'follow_dose()'),
            ('follow_dose', 'AFTER UPDATE OF dose', 'stack_item', 'follow_dose()')
        ) as own
        union all
        select 'belong', 'BEFORE UPDATE', 'reminder_rule', 'link_reminder()', 'O',
               'FOR EACH ROW WHEN (((new.schedule_id IS NOT NULL) OR (old.schedule_id IS NOT NULL)))'
        union all
        select 'plan_' || lower(event), 'AFTER ' || event, place, call, 'O', scope
        from (values ('schedule', 'plan_schedules()'), ('stack_item', 'plan_stacks()')) as planned(place, call)
        cross join (values
            ('INSERT', 'REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT'),
            ('UPDATE', 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT'),
            ('DELETE', 'REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT')
        ) as events(event, scope)
        union all
        select 'list_' || lower(event), 'AFTER ' || event, place, 'list_changed()', 'O',
               'REFERENCING ' || case event when 'DELETE' then 'OLD' else 'NEW' end || ' TABLE AS changed_rows FOR EACH STATEMENT'
        from unnest('{product,schedule,stack,stack_item}'::text[]) as place cross join unnest('{INSERT,DELETE}'::text[]) as event
        union all
        select 'list_update', 'AFTER UPDATE', 'product', 'list_changed()', 'O',
               'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT'
        union all
        select 'tell_medications', event, place, 'tell_medications()', 'A', 'FOR EACH ROW'
        from (values ('schedule', 'AFTER INSERT OR DELETE OR UPDATE'), ('stack_item', 'AFTER INSERT OR DELETE OR UPDATE'),
                     ('stack', 'BEFORE DELETE OR UPDATE OF user_id')) as inside(place, event)
        union all
        select 'due', 'AFTER INSERT OR UPDATE', 'reminder_rule', 'rule_due()', 'O', 'FOR EACH ROW'
        union all
        select 'due', 'AFTER INSERT OR DELETE OR UPDATE', 'reminder_occurrence', 'exception_due()', 'O', 'FOR EACH ROW'
        union all
        select 'leave_notes', 'AFTER UPDATE OF id, user_id', 'dose_occurrence', 'leave_notes()', 'A', 'FOR EACH ROW'
        union all
        select 'forget_notes', 'AFTER DELETE', 'dose_occurrence', 'forget_notes()', 'A',
               'REFERENCING OLD TABLE AS gone FOR EACH STATEMENT'
        union all
        select 'audit_' || lower(event), 'AFTER ' || event, place, call, 'A',
               'REFERENCING ' || seen || ' FOR EACH STATEMENT'
        from (values
            ('dose_occurrence', 'audit_doses()'), ('reminder_rule', 'audit_rules()'),
            ('reminder_occurrence', 'audit_rule_occurrences()')
        ) as kept(place, call)
        cross join (values
            ('INSERT', 'NEW TABLE AS new_rows'),
            ('UPDATE', 'OLD TABLE AS old_rows NEW TABLE AS new_rows'),
            ('DELETE', 'OLD TABLE AS old_rows')
        ) as audited(event, seen)
        -- Updates of doses are audited by their recorder (care.audited_recorder).
        where (place, event) <> ('dose_occurrence', 'UPDATE')
        union all
        select 'keep', 'BEFORE DELETE OR UPDATE OR TRUNCATE', place, 'keep_audit()', 'A', 'FOR EACH STATEMENT'
        from unnest('{dose_audit,reminder_audit,reminder_occurrence_audit}'::text[]) as place
    loop
        -- pg_get_triggerdef writes `care.` or not by the search path.
        if not exists (
            select from pg_catalog.pg_trigger
            where tgrelid = format('care.%I', t.place)::regclass and tgname = t.name and tgenabled = t.enabled
                and replace(pg_catalog.pg_get_triggerdef(oid), 'care.', '')
                    = format('CREATE TRIGGER %s %s ON %s %s EXECUTE FUNCTION %s',
                             t.name, t.event, t.place, t.scope, t.call)
        ) then
            execute format('create or replace trigger %s %s on care.%s %s execute function care.%s',
                           t.name, t.event, t.place, t.scope, t.call);
            execute format('alter table care.%s enable %s trigger %s',
                           t.place, case t.enabled when 'A' then 'always' else '' end, t.name);
        end if;
    end loop;
end
$do$;
drop function if exists care.describe_again();
drop function if exists care.yield_slot();
