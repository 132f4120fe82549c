-- The app's own tables are published like any other, with builders of their own. Reruns change nothing, and put right
-- what somebody changed.

-- sync.shipped: how this program publishes them; `relation` is null where the table is gone. No locks.
create or replace function sync.shipped()
returns table(name text, relation regclass, user_column name, topic text, event_prefix text, id_column name, rev_column name,
              builder text, context_column name)
language plpgsql stable rows 3
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select t.name, to_regclass(t.name), 'user_id'::name, t.topic, t.event_prefix, 'id'::name, 'rev'::name,
           t.builder, t.context_column
    from (values
        ('care.dose_occurrence', 'adherence', 'occurrence', 'care.occurrence_events', 'local_date'::name),
        ('care.reminder_rule', 'reminders', 'reminder', 'care.reminder_events', null),
        ('care.reminder_occurrence', 'reminders', 'reminder.occurrence', 'care.reminder_occurrence_events', 'rule_id')
    ) as t(name, topic, event_prefix, builder, context_column);
end
$$;

select sync.publish(s.relation, s.user_column, s.topic, s.event_prefix, s.id_column, s.rev_column,
                    builder => s.builder, context_column => s.context_column)
from sync.shipped() as s;
select sync.regenerate();
