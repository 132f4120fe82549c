-- How the ids of a published table are sent.

-- `id_form`: number (as a JSON number where that is exact) or text. `text_columns`: others that are sent as text. `labels`: of the
-- enums that ids and users are made of, in their order, as they were when the table was published; null: not yet known.
alter table sync.published
    add column id_form text not null default 'number' check (id_form in ('number', 'text')),
    add column text_columns name[] not null default '{}',
    add column labels text[];
