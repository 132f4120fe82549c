-- The app's own tables are published like any other, with builders of their own. Reruns change nothing.
select sync.publish_changes('care.dose_occurrence', 'user_id', 'adherence', 'occurrence',
                            builder => 'care.occurrence_events', context_column => 'local_date');
select sync.publish_changes('care.reminder_rule', 'user_id', 'reminders', 'reminder',
                            builder => 'care.reminder_events');
select sync.publish_changes('care.reminder_occurrence', 'user_id', 'reminders', 'reminder.occurrence',
                            builder => 'care.reminder_occurrence_events', context_column => 'rule_id');
select sync.regenerate();
