-- Action types: who carries an action out, and where its events end.

-- What `sync.settle` hands each action to, by its type. `function`: 'schema.function' of (who text, key text, type text, doc
-- jsonb, base jsonb, client_time jsonb, tz text) that returns a sync.verdict. `topics`: of the user's streams that it writes;
-- answers tell where these stand. What is written here is in force from its commit on (`sync.check_action_type`).
create table sync.action_type (
    type text collate "C" primary key check (type ~ '^[A-Za-z0-9_.:-]{1,64}$'),
    function text not null,
    topics text[] not null check (topics::text ~ '^[{]([a-z_]{1,64}(,[a-z_]{1,64})*)?[}]$')
);
