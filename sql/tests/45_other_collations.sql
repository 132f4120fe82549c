-- A database whose letters go by other rules: in Turkish, I is not the capital of i.
select 'carillon_test_tr_' || pg_backend_pid() as database \gset
create database :database template template0 encoding 'UTF8' locale_provider icu icu_locale 'tr-TR';
\set other :connection ' dbname=' :database
\setenv OTHER :other
\setenv SQL :sql
\! PGOPTIONS='-c client_min_messages=warning' psql -Xq -d "$OTHER" -f "$SQL/roles.sql" && "$SQL/tests/install" "$OTHER"
\set told `psql -XqAt -v ON_ERROR_STOP=1 -d "$OTHER" -c 'create schema app' -c 'create table app."Items II" (id int primary key, user_id text, product_id int, is_on boolean)' -c "select sync.publish_changes('app.\"Items II\"', 'user_id', 'items', 'item')" -c "insert into app.\"Items II\" values (1, 'items', 2, true)" -c "select name || ' ' || (data - '_sync') from sync.event" 2>&1 | tail -n 1`
select test.is('Turkish: a table with an I is told, with names as everywhere', :'told'::text, 'item.created {"id": 1, "rev": null, "isOn": true, "productId": 2}');
\set told `psql -XqAt -v ON_ERROR_STOP=1 -d "$OTHER" -c "insert into care.dose_occurrence (id, user_id, scheduled_at) values ('I', 'İ', now()), ('i', 'ı', now())" -c "select string_agg(user_id || ' ' || name, ', ' order by user_id, o) from sync.event where topic = 'adherence'" -c 'select count(*) from sync.check_published()' 2>&1`
select test.is('users and ids by their bytes', :'told'::text, E'İ occurrence.created, İ adherence.summary_updated, ı occurrence.created, ı adherence.summary_updated\n0');
drop database :database with (force);
