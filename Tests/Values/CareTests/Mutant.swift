import Postgres

/// A database made wrong by one change in the text of one function. The differential test must notice it.
enum Mutant: CaseIterable, Sendable {
    case forgetsKeys
    case takesLowNumbersForDone
    case dropsGrace
    case undoIgnoresStatus
    case noteOverwrites
    case keepLocalIgnoresRevisions
    case repeatsBulkItems
    case undoesTwice
    case rejectionTakesNoNumber
    case streakStopsAtNextDay
    case statisticsCountToday
    case undoIsNeverLate
    case digestForgetsBase
    case keepsOldEpochs
    case missesBeforeTheWindowEnds
    case undoBlanksSharedNotes
    case undoesWhatCameLater
    case notesOutliveDoses
    case acceptsAnyEarlyTime
    case ignoresSeenRevisions
    case missedStandsInTheWay
    case acceptsTimesOfLastYear
    case resolvesToAnyTime
    case snapshotsShowWhatIsStored
    case equalNotesForgetWhatWas
    case daysGoByTheServersClock
    case lostClocksAreBelieved
    case lostClocksAreRefused
    case openDaysBreakStreaks
    case endedDaysArePassedOver
    case todayForgetsWhatIsDue
    case todayGoesByDates
    case numbersAreAlwaysUsed
    case takesDosesOfLaterDays
    case namedDosesWaitForTheirTime
    case knowsOneZone
    case missedOnItsDayIsLate
    case fastClocksAreBelieved
    case offsetsOutliveTheirTimes
    case undoForgetsOffsets
    case backendsAreCalledPeople
    case resolvesNameAllStreams

    /// The function, a piece of its text, and its replacement.
    var change: (function: String, from: String, to: String) {
        switch self {
        case .forgetsKeys:
            ("sync.settle", "where a.user_id = who and a.key between settle.key and settle.key", "where false")
        case .takesLowNumbersForDone:
            (
                "sync.settle", "if n <> coalesce(last, 0) + 1 then",
                """
                if n <= last then
                    return query select 'noop', jsonb_build_object('key', key, 'status', 'noop')::text;
                    return;
                elsif n <> coalesce(last, 0) + 1 then
                """
            )
        case .dropsGrace: ("care.grace", "interval '30 minutes'", "interval '0'")
        case .undoIgnoresStatus: ("care.rule_undo", "d.status_rev <> i.status_rev or ", "")
        case .noteOverwrites:
            ("care.write_note", "who, i.id, note_key, note, clock", "who, i.id, 'one', note, clock")
        case .keepLocalIgnoresRevisions:
            ("care.rule_resolve", "(d.status_rev > i.rev or d.created_at <> i.born) and", "false and")
        case .repeatsBulkItems: ("care.bulk", "group by id", "group by id, place")
        case .undoesTwice: ("care.undo", "target.undone_by is not null or", "")
        case .rejectionTakesNoNumber:
            (
                "sync.settle", "if n is not null then\n        insert",
                "if n is not null and verdict.status <> 'rejected' then\n        insert"
            )
        case .streakStopsAtNextDay: ("care.carry_runs", "exit when s.date > last_day;", "exit;")
        case .undoIsNeverLate: ("care.undo", "interval '24 hours'", "interval '24 days'")
        case .digestForgetsBase:
            ("sync.digest", "jsonb_build_array(type, doc, nullif(base_doc, 'null'))", "jsonb_build_array(type, doc)")
        case .keepsOldEpochs: ("sync.replayed", "<> present -> 'epoch'", "= '\"\"'")
        case .missesBeforeTheWindowEnds:
            ("care.rule_act", "i.acted_at < d.window_end then", "i.acted_at < d.scheduled_at then")
        case .undoBlanksSharedNotes: ("care.rule_undo", "n.key <> i.note_key", "false")
        case .undoesWhatCameLater:
            (
                "sync.settle", "    insert into sync.action (",
                """
                    if n is null and verdict.status = 'rejected' then
                        return;
                    end if;
                    insert into sync.action (
                """
            )
        case .notesOutliveDoses: ("care.forget_notes", "where n.user_id = gone.user_id", "where false")
        case .acceptsAnyEarlyTime: ("care.early", "interval '12 hours'", "interval '23 hours'")
        case .ignoresSeenRevisions: ("care.rule_act", "and d.status_rev > i.rev", "and false")
        case .missedStandsInTheWay: ("care.rule_act", "and d.status <> 'missed' and", "and")
        case .acceptsTimesOfLastYear: ("care.untimely", "interval '1 day'", "interval '1 year'")
        case .resolvesToAnyTime: ("care.rule_resolve", "'payload.merged.takenAt'", "null")
        case .snapshotsShowWhatIsStored: ("care.day_shown", "s.pending_count > 0", "false")
        case .equalNotesForgetWhatWas: ("care.undo_entry", "if note = was.note", "if false")
        case .daysGoByTheServersClock: ("care.acted_at", "client_at > clock - interval '90 days'", "false")
        case .lostClocksAreBelieved: ("care.believed", "interval '90 days'", "interval '900 days'")
        case .lostClocksAreRefused: ("care.believed", "care.time_problem(client_time) is not null or ", "")
        case .openDaysBreakStreaks: ("care.open_stats", "s.missed + s.ended = 0", "false")
        case .endedDaysArePassedOver: ("care.open_stats", "s.missed + s.ended = 0", "s.missed = 0")
        case .todayForgetsWhatIsDue: ("care.is_of_today", "(d).window_end > clock", "false")
        case .todayGoesByDates: ("care.is_of_today", "at time zone zone)::date", "at time zone (d).tz)::date")
        case .numbersAreAlwaysUsed: ("sync.number_used", "'numberUsed', used", "'numberUsed', true")
        case .takesDosesOfLaterDays: ("care.rule_act", "not care.day_has_come(d, i.acted_at)", "false")
        case .namedDosesWaitForTheirTime: ("care.bulk", "when criteria is null then 'act'", "when false then 'act'")
        case .knowsOneZone: ("care.day_has_come", "care.zone_of(d.user_id)", "d.tz")
        case .missedOnItsDayIsLate: ("care.rule_act", "or care.day_has_come(d, i.taken_at)", "or false")
        case .fastClocksAreBelieved:
            ("care.act", "least(care.time_of(told), clock)", "coalesce(care.time_of(told), clock)")
        case .offsetsOutliveTheirTimes: ("care.bump_dose", "new.taken_offset := null;", "null;")
        case .undoForgetsOffsets: ("care.intent_of", "(entry #>> '{set,takenOffset}')::int", "null")
        case .backendsAreCalledPeople: ("care.actor", "else 'backend'", "else 'user'")
        case .resolvesNameAllStreams: ("sync.settle", "coalesce(named ? channel, true)", "true")
        case .statisticsCountToday: ("care.stats_on", "today - 30 and today - 1", "today - 30 and today")
        }
    }

    struct NotApplied: Error {
        let mutant: Mutant
    }

    /// Replaces the function; fails when the text is not found.
    func install(_ connection: BlockingConnection) throws {
        let (function, from, to) = change
        let text = try connection.query("select pg_get_functiondef($1::regproc)", [function]).first?.first ?? nil
        guard let text, text.ranges(of: from).count == 1 else { throw NotApplied(mutant: self) }
        try connection.execute(text.replacing(from, with: to))
    }
}

extension Mutant {
    /// Each mutant must be found within this many actions.
    static let actionsMax = 10_000
}
