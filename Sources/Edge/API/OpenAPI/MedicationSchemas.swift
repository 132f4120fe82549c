/// The schemas of medications, schedules, stacks and settings. In bodies, null counts as missing.
enum MedicationSchemas {
    static let all: [(name: StaticString, schema: StaticString)] = [
        ("Medication", medication), ("Medications", medicationList), ("NewMedication", newMedication),
        ("MedicationChange", medicationChange), ("Schedule", schedule), ("Schedules", scheduleList),
        ("NewSchedule", newSchedule), ("ScheduleChange", scheduleChange), ("Stack", stack), ("Stacks", stackList),
        ("NewStack", newStack), ("StackChange", stackChange), ("Settings", settings),
        ("SettingsChange", settingsChange), ("Intake", intake), ("Key", key), ("Words", words),
        ("TimeOfDay", timeOfDay),
        ("Weekdays", weekdays), ("Items", items), ("Position", position), ("PresetTime", presetTime),
    ]

    // MARK: What is shown

    private static let medication: StaticString = """
        {"type":"object","required":["id","name","strength","form","frequency","isCatalogue","archivedAt","schedules"],\
        "properties":{"id":{"type":"string"},"rev":{"type":"integer"},"name":{"type":"string"},\
        "strength":{"type":["string","null"]},"form":{"type":["string","null"]},\
        "frequency":{"enum":["daily","twice_daily","weekly","as_needed","custom",null]},\
        "isCatalogue":{"type":"boolean"},"archivedAt":{"type":["string","null"],"format":"date-time"},\
        "schedules":{"type":"array","items":{"$ref":"#/components/schemas/Schedule"}}}}
        """
    private static let medicationList: StaticString = """
        {"type":"object","required":["items","stacks","settings","position"],"properties":{"items":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Medication"}},"stacks":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Stack"}},"settings":{"$ref":"#/components/schemas/Settings"},\
        "position":{"$ref":"#/components/schemas/Position"}}}
        """
    private static let schedule: StaticString = """
        {"type":"object","required":["id","productId","stackId","time","repeat","timezone","tzMode","enabled","rev"],\
        "properties":{"id":{"type":"string"},"productId":{"type":["string","null"]},\
        "stackId":{"type":["string","null"]},"time":{"type":["string","null"]},\
        "repeat":{"enum":["daily","weekdays","custom","as_needed"]},"repeatOn":{"type":["array","null"]},\
        "dose":{"type":["string","null"]},"windowMinutes":{"type":"integer"},"timezone":{"type":"string"},\
        "tzMode":{"enum":["follow","fixed"]},"startsOn":{"type":["string","null"]},"endsOn":{"type":["string","null"]},\
        "enabled":{"type":"boolean"},"rev":{"type":"integer"}}}
        """
    private static let scheduleList: StaticString = """
        {"type":"object","required":["items","position"],"properties":{"items":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Schedule"}},"position":{"$ref":"#/components/schemas/Position"}}}
        """
    private static let stack: StaticString = """
        {"type":"object","required":["id","name","items","schedules"],"properties":{"id":{"type":"string"},\
        "rev":{"type":"integer"},"name":{"type":"string"},"items":{"type":"array","items":{"type":"object",\
        "required":["productId","position","dose"]}},"schedules":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Schedule"}}}}
        """
    private static let stackList: StaticString = """
        {"type":"object","required":["items","position"],"properties":{"items":{"type":"array",\
        "items":{"$ref":"#/components/schemas/Stack"}},"position":{"$ref":"#/components/schemas/Position"}}}
        """
    private static let settings: StaticString = """
        {"type":"object","required":["userId","timezone","rev"],"properties":{"userId":{"type":"string"},\
        "timezone":{"type":"string"},"rev":{"type":"integer"},\
        "updatedAt":{"type":["string","null"],"format":"date-time"}}}
        """
    private static let position: StaticString = """
        {"type":"object","required":["epoch","offset"],"properties":{"epoch":{"type":"string"},\
        "offset":{"type":"integer"}}}
        """

    // MARK: What is sent

    private static let newMedication: StaticString = """
        {"type":"object","required":["id","name"],"properties":{"id":{"$ref":"#/components/schemas/Key"},\
        "name":{"type":"string","minLength":1,"maxLength":200},"strength":{"$ref":"#/components/schemas/Words"},\
        "form":{"$ref":"#/components/schemas/Words"},"dose":{"$ref":"#/components/schemas/Words"},\
        "frequency":{"enum":["daily","twice_daily","weekly","as_needed",null]},"times":{"type":["array","null"],\
        "maxItems":2,"uniqueItems":true,"items":{"$ref":"#/components/schemas/TimeOfDay"}},\
        "repeatOn":{"$ref":"#/components/schemas/Weekdays"},"scheduleIds":{"type":["array","null"],"maxItems":2,\
        "uniqueItems":true,"items":{"$ref":"#/components/schemas/Key"}},\
        "windowMinutes":{"type":["integer","null"],"minimum":1,"maximum":1440},\
        "startsOn":{"type":["string","null"],"format":"date"},"endsOn":{"type":["string","null"],"format":"date"},\
        "timezone":{"type":["string","null"]},"tzMode":{"enum":["follow","fixed",null]}},\
        "example":{"id":"m1","name":"Magnesium","strength":"400 mg","frequency":"daily"}}
        """
    private static let medicationChange: StaticString = """
        {"type":"object","properties":{"name":{"$ref":"#/components/schemas/Words"},\
        "strength":{"$ref":"#/components/schemas/Words"},"form":{"$ref":"#/components/schemas/Words"},\
        "dose":{"$ref":"#/components/schemas/Words"},\
        "frequency":{"enum":["daily","twice_daily","weekly","as_needed","custom",null]},\
        "times":{"type":["array","null"],"maxItems":2,"uniqueItems":true,\
        "items":{"$ref":"#/components/schemas/TimeOfDay"}},"repeatOn":{"$ref":"#/components/schemas/Weekdays"},\
        "archived":{"type":["boolean","null"]}},"example":{"name":"Magnesium citrate"}}
        """
    private static let newSchedule: StaticString = """
        {"type":"object","required":["id"],"properties":{"id":{"$ref":"#/components/schemas/Key"},\
        "productId":{"type":["string","null"],"minLength":1,"maxLength":200},\
        "stackId":{"type":["string","null"],"minLength":1,"maxLength":200},\
        "time":{"anyOf":[{"$ref":"#/components/schemas/TimeOfDay"},{"type":"null"}]},\
        "repeat":{"enum":["daily","weekdays","custom","as_needed",null]},\
        "repeatOn":{"$ref":"#/components/schemas/Weekdays"},"dose":{"$ref":"#/components/schemas/Words"},\
        "windowMinutes":{"type":["integer","null"],"minimum":1,"maximum":1440},\
        "startsOn":{"type":["string","null"],"format":"date"},"endsOn":{"type":["string","null"],"format":"date"},\
        "timezone":{"type":["string","null"]},"tzMode":{"enum":["follow","fixed",null]},\
        "enabled":{"type":["boolean","null"]}},"example":{"id":"s1","productId":"m1","time":"08:00"}}
        """
    private static let scheduleChange: StaticString = """
        {"type":"object","properties":{"time":{"anyOf":[{"$ref":"#/components/schemas/TimeOfDay"},{"type":"null"}]},\
        "repeat":{"enum":["daily","weekdays","custom","as_needed",null]},\
        "repeatOn":{"$ref":"#/components/schemas/Weekdays"},"dose":{"$ref":"#/components/schemas/Words"},\
        "windowMinutes":{"type":["integer","null"],"minimum":1,"maximum":1440},\
        "startsOn":{"type":["string","null"],"format":"date"},"endsOn":{"type":["string","null"],"format":"date"},\
        "timezone":{"type":["string","null"]},"tzMode":{"enum":["follow","fixed",null]},\
        "enabled":{"type":["boolean","null"]}},"example":{"enabled":false}}
        """
    private static let newStack: StaticString = """
        {"type":"object","required":["id","name"],"properties":{"id":{"$ref":"#/components/schemas/Key"},\
        "name":{"type":"string","minLength":1,"maxLength":200},"items":{"$ref":"#/components/schemas/Items"}},\
        "example":{"id":"k1","name":"Morning","items":[{"productId":"m1"}]}}
        """
    private static let stackChange: StaticString = """
        {"type":"object","properties":{"name":{"$ref":"#/components/schemas/Words"},\
        "items":{"$ref":"#/components/schemas/Items"}},"example":{"name":"Evening"}}
        """
    private static let settingsChange: StaticString = """
        {"type":"object","properties":{"timezone":{"type":["string","null"]},"presetTimes":{"type":["object","null"],\
        "additionalProperties":false,"properties":{"AM_WITH_FOOD":{"$ref":"#/components/schemas/PresetTime"},\
        "WITH_BREAKFAST":{"$ref":"#/components/schemas/PresetTime"},"LUNCH":{"$ref":"#/components/schemas/PresetTime"},\
        "BEDTIME":{"$ref":"#/components/schemas/PresetTime"}}}},"example":{"timezone":"Europe/Berlin"}}
        """
    private static let intake: StaticString = """
        {"type":"object","required":["id","productId"],"properties":{"id":{"$ref":"#/components/schemas/Key"},\
        "productId":{"$ref":"#/components/schemas/Key"},"takenAt":{},"dose":{"$ref":"#/components/schemas/Words"},\
        "note":{"type":["string","null"],"minLength":1,"maxLength":4000}},"example":{"id":"i1","productId":"m1"}}
        """

    // MARK: Parts

    private static let key: StaticString = #"{"type":"string","minLength":1,"maxLength":200}"#
    private static let words: StaticString = #"{"type":["string","null"],"minLength":1,"maxLength":200}"#
    private static let timeOfDay: StaticString = #"{"type":"string","pattern":"^([01][0-9]|2[0-3]):[0-5][0-9]$"}"#
    private static let presetTime: StaticString = """
        {"anyOf":[{"$ref":"#/components/schemas/TimeOfDay"},{"type":"null"}]}
        """
    private static let weekdays: StaticString = """
        {"type":["array","null"],"minItems":1,"maxItems":7,"uniqueItems":true,\
        "items":{"type":"integer","minimum":1,"maximum":7},"description":"1 is Monday."}
        """
    private static let items: StaticString = """
        {"type":["array","null"],"maxItems":100,"items":{"type":"object","required":["productId"],"properties":{\
        "productId":{"$ref":"#/components/schemas/Key"},"dose":{"$ref":"#/components/schemas/Words"}}}}
        """
}
