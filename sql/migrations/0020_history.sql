-- Pages of history by status. The index of a user's days has the status too, so that a page reads only the doses it shows. No
-- update stays in place less often for it: dose_occurrence_open and dose_occurrence_product know the status already. It
-- takes the place of dose_occurrence_day, which goes in 0021. Writers of doses wait while it is built; readers do not.
create index dose_occurrence_days on care.dose_occurrence (user_id, local_date, status);
