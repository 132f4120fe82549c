-- The app's own tables are published like any other, with builders of their own. Reruns change nothing, and put right
-- what somebody changed.

-- sync.shipped: how this program publishes them; `relation` is null where the table is gone. No locks.
create or replace function sync.shipped()
returns table(name text, relation regclass, user_column name, topic text, event_prefix text, id_column name, rev_column name,
              builder text, context_column name)
language plpgsql stable rows 6
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select t.name, to_regclass(t.name), 'user_id'::name, t.topic, t.event_prefix, t.id_column, 'rev'::name,
           t.builder, t.context_column
    from (values
        ('care.dose_occurrence', 'id'::name, 'adherence', 'occurrence', 'care.occurrence_events', 'local_date'::name),
        ('care.reminder_rule', 'id', 'reminders', 'reminder', 'care.reminder_events', null),
        ('care.reminder_occurrence', 'id', 'reminders', 'reminder.occurrence', 'care.reminder_occurrence_events', 'rule_id'),
        ('care.product', 'id', 'medications', 'medication', 'care.medication_events', null),
        ('care.stack', 'id', 'medications', 'stack', 'care.stack_events', null),
        ('care.user_settings', 'user_id', 'medications', 'settings', 'care.settings_events', null)
    ) as t(name, id_column, topic, event_prefix, builder, context_column);
end
$$;

select sync.publish(s.relation, s.user_column, s.topic, s.event_prefix, s.id_column, s.rev_column,
                    builder => s.builder, context_column => s.context_column)
from sync.shipped() as s;
select sync.regenerate();
