-- sync.refuse_truncate: TRUNCATE has no rows to tell anyone about, so a published table refuses it. No locks.
create or replace function sync.refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'table %.% is published by sync.publish_changes and cannot be truncated',
        tg_table_schema, tg_table_name
        using errcode = 'feature_not_supported', hint = 'DELETE the rows, or sync.unpublish_changes first.';
end
$$;
