/// The schemas of reminders. In bodies, null counts as missing, and members of a whole object that say nothing are ignored.
enum ReminderSchemas {
    static let all: [(name: StaticString, schema: StaticString)] = [
        ("Reminder", reminder), ("Reminders", reminderList), ("ReminderOccurrence", occurrence),
        ("Upcoming", upcoming), ("NewReminder", newReminder), ("ReminderChange", reminderChange),
        ("PreviewedReminder", previewed), ("ReminderPreview", preview), ("OccurrenceChange", occurrenceChange),
        ("Snooze", snooze), ("ReminderQueue", queue), ("ReminderSync", sync),
    ]

    // MARK: What is shown

    private static let reminder: StaticString = """
        {"type":"object","required":["id","userId","clientId","productId","stackId","appliesTo","preset","label","time",\
        "timezone","tzMode","repeat","repeatOn","snoozeMinutes","delivery","enabled","scheduleId","rev","nextOccurrences",\
        "upcoming"],"properties":{"id":{"type":"string"},"clientId":{"type":["string","null"]},\
        "productId":{"type":["string","null"]},"stackId":{"type":["string","null"]},"appliesTo":{"enum":["item","stack"]},\
        "time":{"$ref":"#/components/schemas/TimeOfDay"},"timezone":{"type":"string"},"tzMode":{"enum":["follow","fixed"]},\
        "repeat":{"enum":["daily","weekdays","custom"]},"repeatOn":{"type":["array","null"]},\
        "delivery":{"enum":["local","push","both"]},"enabled":{"type":"boolean"},"rev":{"type":"integer"},\
        "silent":{"type":"boolean","description":"Its medicine was stopped, or its schedule is paused: it has no times."},\
        "scheduleId":{"type":["string","null"],"description":"Time, days and zone are this schedule's."},\
        "nextOccurrences":{"type":"array","items":{"type":"string","format":"date-time"}},\
        "upcoming":{"type":"array","items":{"$ref":"#/components/schemas/Upcoming"}}}}
        """
    private static let upcoming: StaticString = """
        {"type":"object","required":["id","ruleId","start","status"],"properties":{"id":{"type":"string"},\
        "ruleId":{"type":"string"},"start":{"type":"string","format":"date-time"},\
        "status":{"enum":["scheduled","sent","missed","cancelled"]}}}
        """
    private static let occurrence: StaticString = """
        {"type":"object","required":["id","ruleId","start","status","rev"],"description":"It differs from its rule: \
        cancelled, moved, snoozed, sent, or kept where it was when the zone changed."}
        """
    private static let reminderList: StaticString = """
        {"type":"object","required":["items","occurrences","position"],"properties":{"items":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Reminder"}},"occurrences":{"type":"array",\
        "items":{"$ref":"#/components/schemas/ReminderOccurrence"}},\
        "position":{"$ref":"#/components/schemas/Position"}}}
        """
    private static let preview: StaticString = """
        {"type":"object","required":["nextOccurrences","upcoming"],"properties":{"nextOccurrences":{"type":"array",\
        "items":{"type":"string","format":"date-time"}},"upcoming":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Upcoming"}}}}
        """
    private static let sync: StaticString = """
        {"allOf":[{"$ref":"#/components/schemas/Reminders"},{"type":"object","required":["results","conflicts",\
        "positions"],"properties":{"results":{"type":"array","items":{"$ref":"#/components/schemas/ActionResult"}},\
        "conflicts":{"type":"array","items":{"type":"object","required":["key","code","server","local","options"]}},\
        "positions":{"type":"object"}}}]}
        """

    // MARK: Bodies

    private static let newReminder: StaticString = """
        {"type":"object","description":"Of productId and stackId one, or a scheduleId. Without a time it is the \
        preset's. An id is the client's own; one that begins with tmp- is a clientId.","properties":{\
        "id":{"type":["string","null"],"minLength":1,"maxLength":200},\
        "clientId":{"type":["string","null"],"minLength":1,"maxLength":200},\
        "productId":{"type":["string","null"],"minLength":1,"maxLength":200},\
        "stackId":{"type":["string","null"],"minLength":1,"maxLength":200},\
        "scheduleId":{"type":["string","null"],"minLength":1,"maxLength":200},"appliesTo":{"enum":["item","stack",null]},\
        "preset":{"enum":["AM_WITH_FOOD","WITH_BREAKFAST","LUNCH","BEDTIME","CUSTOM",null]},\
        "label":{"$ref":"#/components/schemas/Words"},\
        "time":{"anyOf":[{"$ref":"#/components/schemas/TimeOfDay"},{"type":"null"}]},\
        "timezone":{"type":["string","null"]},"tzMode":{"enum":["follow","fixed",null]},\
        "repeat":{"enum":["daily","weekdays","custom",null]},"repeatOn":{"type":["array","null"],"maxItems":7,\
        "uniqueItems":true,"items":{"type":"integer","minimum":1,"maximum":7},"description":"1 is Monday."},\
        "snoozeMinutes":{"type":["integer","null"],"minimum":1,"maximum":240},\
        "delivery":{"enum":["local","push","both",null]},"enabled":{"type":["boolean","null"]}},\
        "example":{"productId":"m1","preset":"LUNCH","repeat":"daily"}}
        """
    private static let reminderChange: StaticString = """
        {"type":"object","description":"The members to change, or the whole object; base or rev: the revision that the \
        person saw. With applyTo occurrence it is about one occurrence: occurrenceId or date, and enabled, movedTo or \
        time.","properties":{"applyTo":{"enum":["rule","occurrence",null]},"occurrenceId":{},"date":{},"movedTo":{},\
        "preset":{"enum":["AM_WITH_FOOD","WITH_BREAKFAST","LUNCH","BEDTIME","CUSTOM",null]},\
        "time":{"anyOf":[{"$ref":"#/components/schemas/TimeOfDay"},{"type":"null"}]},\
        "repeat":{"enum":["daily","weekdays","custom",null]},"delivery":{"enum":["local","push","both",null]},\
        "snoozeMinutes":{"type":["integer","null"],"minimum":1,"maximum":240},"enabled":{"type":["boolean","null"]}},\
        "example":{"time":"08:30","base":{"rev":1}}}
        """
    private static let previewed: StaticString = """
        {"allOf":[{"$ref":"#/components/schemas/NewReminder"},{"type":"object","properties":{\
        "n":{"type":["integer","null"],"minimum":1,"maximum":30},"from":{}}}]}
        """
    private static let occurrenceChange: StaticString = """
        {"type":"object","description":"movedTo: a local time such as 2025-11-20T09:30, or null to move it back.",\
        "properties":{"enabled":{"type":["boolean","null"]},"movedTo":{},\
        "time":{"anyOf":[{"$ref":"#/components/schemas/TimeOfDay"},{"type":"null"}]}},"example":{"enabled":false}}
        """
    private static let snooze: StaticString = """
        {"type":"object","description":"Until an instant, or for minutes; without both for as long as the rule says.",\
        "properties":{"until":{},"minutes":{"type":["integer","null"],"minimum":1,"maximum":240}},\
        "example":{"minutes":10}}
        """
    private static let queue: StaticString = """
        {"type":"object","required":["changes"],"properties":{"deviceId":{"type":["string","null"],"minLength":1,\
        "maxLength":200},"changes":{"type":"array","maxItems":200,"items":{"description":"An object with op (create, \
        update, delete, snooze, occurrence, resolve), id or clientId, payload or data, timestamp, key and base. One that \
        cannot be read is rejected by itself."}}},\
        "example":{"changes":[{"op":"create","clientId":"tmp-1","data":{"productId":"m1","time":"08:00"},\
        "timestamp":1763712000000}]}}
        """
}
