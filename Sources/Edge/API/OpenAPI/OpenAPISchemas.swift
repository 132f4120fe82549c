/// The JSON schemas of bodies, by the names that rows of the route table use. An object may have further members.
enum OpenAPISchemas {
    /// In the order in which the document has them.
    static let all: [(name: StaticString, schema: StaticString)] =
        [
            ("Anything", "{}"),
            ("Dose", dose), ("DoseWithNotes", doseWithNotes), ("DaySummary", daySummary), ("Stats", stats),
            ("Day", day),
            ("Month", month), ("Counts", counts), ("RangeStats", rangeStats), ("HistoryPage", historyPage),
            ("Doses", doses), ("Feedback", feedback), ("Base", base),
            ("ActionEnvelope", actionEnvelope), ("PlainAction", plainAction), ("QueuedAction", queuedAction),
            ("PlainBulk", plainBulk),
            ("ActionResult", actionResult), ("PlainAnswer", plainAnswer), ("ActionProblem", actionProblem),
            ("Problem", problem), ("ActionObject", actionObject),
        ] + MedicationSchemas.all + ReminderSchemas.all + DeviceSchemas.all

    private static let dose: StaticString = """
        {"type":"object","required":["id","userId","status","takenAt","hasNote","rev","scheduledAt","timeLocal","timezone",\
        "localDate","windowEnd"],"properties":{"id":{"type":"string"},"userId":{"type":"string"},\
        "scheduleId":{"type":["string","null"]},"productId":{"type":["string","null"]},\
        "productName":{"type":["string","null"]},\
        "strength":{"type":["string","null"]},"form":{"type":["string","null"]},"dose":{"type":["string","null"]},\
        "asNeeded":{"type":"boolean"},\
        "status":{"enum":["scheduled","taken","missed","made_up","skipped","cancelled"]},\
        "takenAt":{"type":["string","null"],"format":"date-time"},"takenAtLocal":{"type":["string","null"]},\
        "changedBy":{"type":"object","properties":{"actor":{"type":["string","null"]},\
        "deviceId":{"type":["string","null"]}}},"hasNote":{"type":"boolean"},\
        "rev":{"type":"integer"},"scheduledAt":{"type":"string","format":"date-time"},\
        "timeLocal":{"type":"string","format":"date-time"},"timezone":{"type":"string"},\
        "localDate":{"type":"string","format":"date"},"windowStart":{"type":["string","null"],"format":"date-time"},\
        "windowEnd":{"type":"string","format":"date-time"},"createdAt":{"type":"string","format":"date-time"},\
        "updatedAt":{"type":"string","format":"date-time"},"reason":{"type":["string","null"]},\
        "note":{"type":["string","null"]}}}
        """
    private static let doseWithNotes: StaticString = """
        {"allOf":[{"$ref":"#/components/schemas/Dose"},{"type":"object","required":["notes","notesNext","history"],"properties":{\
        "notesNext":{"type":["string","null"]},"history":{"type":"array","maxItems":200,"items":{"type":"object","required":["at","actor","before","after"]}},\
        "notes":\
        {"type":"array","maxItems":100,"items":{"type":"object","required":["key","text","createdAt"],"properties":{\
        "key":{"type":"string"},"text":{"type":"string"},"createdAt":{"type":"string","format":"date-time"}}}}}}]}
        """
    private static let daySummary: StaticString = """
        {"type":"object","required":["date","scheduledCount","takenCount","missedCount","madeUpCount","skippedCount",\
        "pendingCount","adherencePct","onTimePct"],"properties":{"date":{"type":"string","format":"date"},\
        "scheduledCount":{"type":"integer"},"takenCount":{"type":"integer"},"missedCount":{"type":"integer"},\
        "madeUpCount":{"type":"integer"},"skippedCount":{"type":"integer"},"pendingCount":{"type":"integer"},\
        "adherencePct":{"type":["number","null"]},"onTimePct":{"type":["number","null"]}}}
        """
    private static let stats: StaticString = """
        {"type":"object","required":["currentStreakDays","bestStreakDays","avg30DaysPct","doses30Pct"],"properties":{\
        "currentStreakDays":{"type":"integer"},"bestStreakDays":{"type":"integer"},\
        "avg30DaysPct":{"type":["number","null"],"description":"The mean of the days' own percentages, of the 30 days \
        before today; days with nothing due are left out."},"doses30Pct":{"type":["number","null"],\
        "description":"The percentage of all doses of these days together."}}}
        """
    private static let day: StaticString = """
        {"type":"object","required":["occurrences","summary","stats"],"properties":{"occurrences":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Dose"}},"summary":{"$ref":"#/components/schemas/DaySummary"},\
        "stats":{"$ref":"#/components/schemas/Stats"},"elsewhere":{"type":"array","description":"Without a date: doses of \
        today's date which fall on another of the person's days.","items":{"$ref":"#/components/schemas/Dose"}}}}
        """
    private static let month: StaticString = """
        {"type":"array","minItems":28,"maxItems":31,"items":{"$ref":"#/components/schemas/DaySummary"}}
        """
    private static let counts: StaticString = """
        {"type":"object","required":["scheduled","taken","missed","madeUp","skipped","pending","adherencePct"],\
        "properties":{"date":{"type":"string","format":"date"},"hour":{"type":"integer","minimum":0,"maximum":23},\
        "productId":{"type":["string","null"]},"productName":{"type":["string","null"]},\
        "scheduled":{"type":"integer"},"taken":{"type":"integer"},"missed":{"type":"integer"},\
        "madeUp":{"type":"integer"},"skipped":{"type":"integer"},"pending":{"type":"integer"},\
        "adherencePct":{"type":["number","null"]}}}
        """
    private static let rangeStats: StaticString = """
        {"allOf":[{"$ref":"#/components/schemas/Stats"},{"type":"object","required":["start","end","adherencePct",\
        "onTimePct","lastSyncAt","histogram","byProduct"],"properties":{"start":{"type":"string","format":"date"},\
        "end":{"type":"string","format":"date"},"adherencePct":{"type":["number","null"]},\
        "onTimePct":{"type":["number","null"]},"lastSyncAt":{"type":["string","null"],"format":"date-time"},\
        "histogram":{"type":"object","required":["byDay","byHour"],"properties":{"byDay":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Counts"}},"byHour":{"type":"array","minItems":24,"maxItems":24,\
        "items":{"$ref":"#/components/schemas/Counts"}}}},"byProduct":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Counts"}}}}]}
        """
    private static let historyPage: StaticString = """
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Dose"}},"next":{"type":["string","null"],\
        "description":"The cursor of the page after this one; null: this is the last."}}}
        """
    private static let doses: StaticString = ##"{"type":"array","items":{"$ref":"#/components/schemas/Dose"}}"##
    private static let feedback: StaticString = """
        {"type":"object","properties":{"type":{"description":"tap, view, mark, markAll, undo, makeUp (or make-up), skip, \
        note, resolve or export; another one is dropped."},"id":{"description":"The device's own id of the event: an \
        event that comes twice is kept once."},"occurrenceId":{},"deviceId":{},"timestamp":{"description":"ISO 8601 \
        with an offset, or milliseconds since 1970."},"properties":{"description":"An object of 2,000 bytes at most."}},\
        "description":"An event of a screen. An event that cannot be kept is dropped, and does not fail the request.",\
        "example":{"type":"tap","occurrenceId":"d1"}}
        """
    private static let base: StaticString = """
        {"type":"object","description":"The revision that the user saw: {rev}, or {id: {rev}} for several doses."}
        """

    // MARK: Actions

    private static let actionEnvelope: StaticString = """
        {"type":"object","required":["key","type","payload"],"properties":{"v":{"const":1},\
        "key":{"type":"string","minLength":1,"maxLength":200},"type":{"type":"string","maxLength":64},\
        "payload":{"type":"object"},"deviceId":{"type":"string"},\
        "n":{"type":"integer","description":"The action's number on its device, from 1 on."},\
        "base":{"$ref":"#/components/schemas/Base"},"clientTime":{},"tz":{"type":"string"}}}
        """
    private static let plainAction: StaticString = """
        {"anyOf":[{"type":"object","required":["idempotencyKey","actionType","payload"],"properties":{\
        "idempotencyKey":{"type":"string","minLength":1,"maxLength":200},"actionType":{"type":"string","maxLength":64},\
        "payload":{"type":"object"},"base":{"$ref":"#/components/schemas/Base"},"clientTime":{},\
        "tz":{"type":"string"}},"example":{"idempotencyKey":"k1","actionType":"markTaken",\
        "payload":{"occurrenceId":"d1"}}},{"$ref":"#/components/schemas/QueuedAction"},\
        {"$ref":"#/components/schemas/ActionEnvelope"}]}
        """
    private static let queuedAction: StaticString = """
        {"type":"object","required":["id","type","payload"],"properties":{"id":{"type":"string","minLength":1,\
        "maxLength":200,"description":"The key of the action."},"type":{"type":"string","maxLength":64},\
        "payload":{"type":"object"},"timestamp":{}},"description":"An item of an offline queue, as it is stored.",\
        "example":{"id":"k3","type":"skip","payload":{"occurrenceId":"d1"},"timestamp":1763712000000}}
        """
    private static let plainBulk: StaticString = """
        {"anyOf":[{"type":"object","required":["idempotencyKey"],"properties":{\
        "idempotencyKey":{"type":"string","minLength":1,"maxLength":200},"occurrenceIds":{"type":"array",\
        "minItems":1,"maxItems":200,"items":{"type":"string","minLength":1,"maxLength":200}},\
        "criteria":{"type":"object"},"takenAt":{},"includeFuture":{"type":"boolean"},\
        "base":{"$ref":"#/components/schemas/Base"},"clientTime":{},"tz":{"type":"string"}},\
        "example":{"idempotencyKey":"k2","occurrenceIds":["d1","d2"]}},\
        {"$ref":"#/components/schemas/ActionEnvelope"}]}
        """
    private static let actionObject: StaticString = """
        {"type":"object","description":"May be empty. idempotencyKey, base or rev, and clientTime may be in it."}
        """
    private static let actionResult: StaticString = """
        {"type":"object","required":["key","status"],"properties":{"key":{"type":"string"},\
        "status":{"enum":["applied","noop","partial","conflict","rejected","retry"]},"code":{"type":"string"},\
        "message":{"type":"string"},"path":{"type":"string"},"result":{"type":"object"},"conflict":{"type":"object"},\
        "positions":{"type":"object"},"replayed":{"type":"boolean"},"afterMs":{"type":"integer"},\
        "expected":{"type":"integer"},"numberUsed":{"type":"boolean","description":"Whether the action has used up its \
        n."}}}
        """
    private static let plainAnswer: StaticString = """
        {"type":"object","required":["_sync"],"description":"What the action is about, as it is now: its members, and \
        `_sync` beside them.","properties":{"_sync":{"type":"object","required":["replayed","status"],"properties":{\
        "replayed":{"type":"boolean"},"status":{"enum":["applied","noop","partial"]},"positions":{"type":"object"},"numberUsed":{"type":"boolean"}}}}}
        """
    private static let actionProblem: StaticString = """
        {"type":"object","required":["_sync"],"properties":{"error":{"type":"string"},"code":{"type":"string"},\
        "path":{"type":"string"},"conflict":{"type":"object"},"expected":{"type":"integer"},"_sync":{"type":"object",\
        "required":["key","replayed","status"],"properties":{"key":{"type":"string"},"replayed":{"type":"boolean"},\
        "status":{"enum":["conflict","rejected","retry"]},"afterMs":{"type":"integer"},\
        "numberUsed":{"type":"boolean"}}}}}
        """
    private static let problem: StaticString = """
        {"type":"object","required":["error","code"],"properties":{"error":{"type":"string",\
        "description":"What is wrong, for the app's developer."},"code":{"type":"integer"}}}
        """
}
