-- Publishing: what tells a table that was swapped or changed, and what a transaction's triggers write in any order.

-- `published_as`: the table's name when it was published; another name now means that it was renamed or swapped.
-- `id_type`: the type as which its functions look an id up; `hardest`: the types that they are ready for (sync.hardest).
-- Both null until sync.regenerate has written those.
alter table sync.published add column published_as text, add column id_type text, add column hardest int;
update sync.published as p set published_as = format('%I.%I', n.nspname, c.relname)
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where c.oid = p.relation;

-- Triggers of an app that write the table again are recorded before the statement that fired them. So what came first is
-- not told by the order: `balance` is how many times the row came minus how many times it went; `context` is one of the
-- context column's values before, `contexts` the others; `op` is 'U' only where all were updates; `rev` is the highest one
-- that was replaced. Rows without a balance were recorded by functions from before this migration.
alter table sync.touched add column balance int, add column contexts text[];
