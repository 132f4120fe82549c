insert into care.dose_occurrence (id, user_id, product_id, scheduled_at, local_date) values ('a', 'u', 'p', now(), current_date);
select test.is('insert tells a created dose and a summary', test.events('u', 'adherence'), 'occurrence.created a, adherence.summary_updated ' || current_date);
select jsonb_pretty(data) from sync.event;
