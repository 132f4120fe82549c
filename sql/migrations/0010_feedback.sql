-- What apps tell of how they are used, and what statistics and history read.

-- Feedback of the app's screens: 90 days. `event_id`: the device's own id of the event, where it gave one, so that an event
-- that comes twice is kept once. `at`: when it happened, as the device says.
create table care.feedback (
    id bigint generated always as identity primary key,
    user_id text not null,
    event_id text,
    type text not null,
    occurrence_id text,
    device_id text,
    properties jsonb,
    at timestamptz not null,
    received_at timestamptz not null,
    unique (user_id, event_id)
);
create index feedback_received on care.feedback (received_at);

-- When a user's devices were last in touch: the newest action.
create index action_newest on sync.action (user_id, created_at);
