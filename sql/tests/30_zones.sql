-- Wall times to instants, across gaps and overlaps; ids from wall times.
select test.is(format('%s %s', wall, zone), care.local_iso(care.resolve_local(wall, zone), zone), want) from (values
    (timestamp '2025-07-01 08:00', 'Europe/Berlin', '2025-07-01T08:00:00+02:00'),
    ('2025-03-09 02:30', 'America/New_York', '2025-03-09T03:30:00-04:00'),
    ('2025-03-09 01:59', 'America/New_York', '2025-03-09T01:59:00-05:00'),
    ('2025-03-09 03:00', 'America/New_York', '2025-03-09T03:00:00-04:00'),
    ('2018-11-04 01:30', 'America/New_York', '2018-11-04T01:30:00-04:00'),
    ('2018-11-04 02:00', 'America/New_York', '2018-11-04T02:00:00-05:00'),
    ('2025-03-30 01:30', 'Europe/Dublin', '2025-03-30T02:30:00+01:00'),
    ('2025-10-26 01:30', 'Europe/Dublin', '2025-10-26T01:30:00+01:00'),
    ('2025-10-05 02:15', 'Australia/Lord_Howe', '2025-10-05T02:45:00+11:00'),
    ('2025-04-06 01:45', 'Australia/Lord_Howe', '2025-04-06T01:45:00+11:00'),
    ('2011-12-30 08:00', 'Pacific/Apia', '2011-12-31T08:00:00+14:00'),
    ('2011-12-29 23:59', 'Pacific/Apia', '2011-12-29T23:59:00-10:00'),
    ('2025-06-01 12:00', 'Asia/Kathmandu', '2025-06-01T12:00:00+05:45'),
    ('2025-06-01 12:00', 'America/St_Johns', '2025-06-01T12:00:00-02:30')
) as t(wall, zone, want);
select test.is('a skipped day fires once, not twice', (
    select string_agg(care.local_iso(t, 'Pacific/Apia'), ' ') from care.next_occurrences(
        row('r', 'u', null, null, null, 'item', null, null, '08:00', 'Pacific/Apia', 'fixed', 'daily', null, null, 'local', true, 1, now(), now(), null, false)::care.reminder_rule,
        '2011-12-28 20:00+00', 3) as t), '2011-12-29T08:00:00-10:00 2011-12-31T08:00:00+14:00 2012-01-01T08:00:00+14:00');
select test.is('who has no settings lives in UTC', care.zone_of('nobody'), 'UTC');
select test.is('UUIDv5, the vector of RFC 9562', care.uuid5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'www.example.com')::text, '2ed6657d-e927-568b-95e1-2665a8aea6a2');
select test.is('a UUID rule id is the namespace', care.occurrence_id('6ba7b810-9dad-11d1-80b4-00c04fd430c8', '2025-11-14 08:00'), care.uuid5('6ba7b810-9dad-11d1-80b4-00c04fd430c8', '2025-11-14T08:00')::text);
select test.is('other ids too give stable ids', care.occurrence_id('rule.1', '2025-11-14 08:00') = care.occurrence_id('rule.1', '2025-11-14 08:00') and care.occurrence_id('rule.1', '2025-11-14 08:00') <> care.occurrence_id('rule.2', '2025-11-14 08:00'), true);
