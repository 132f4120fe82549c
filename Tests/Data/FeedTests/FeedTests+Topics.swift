import Sync
import Testing

@testable import Feed

/// The topics that are published: the hub hears of new ones.
extension FeedTests {
    /// Found by the notification at its commit: the poll is far away.
    @Test func aTopicIsToldWhenItIsPublished() throws {
        let recorder = try record()
        let (items, weights) = (StreamID(user: "x", topic: "items"), StreamID(user: "x", topic: "weights"))
        try recorder.wait("topics") { !recorder.unlockedTopics.isEmpty }
        try recorder.waitForStatus(.live)
        let first = recorder.topics
        #expect(first.count == 1 && first[0].contains(items) && !first[0].contains(weights))
        try writer.execute("CREATE TABLE app.weight (id text PRIMARY KEY, user_id text, grams int)")
        try writer.execute("BEGIN; SELECT sync.publish_changes('app.weight', 'user_id', 'weights', 'weight')")
        try writer.execute("INSERT INTO app.weight VALUES ('1', 'ann', 60); COMMIT")
        try recorder.wait("the topic") { recorder.unlockedTopics.last?.contains(weights) == true }
        let ann = recorder.watch("ann", topic: "weights")
        try recorder.waitForPosition(ann)
        let position = try #require(recorder.stream(ann)?.start)
        #expect(position.offset == 1)
        #expect(
            position.epochText == recorder.topics.last?.start.epochText, "streams are born in the epoch that was told")
        try writer.execute("SELECT sync.unpublish_changes('app.weight')")
        let other = try record()
        try other.wait("topics") { other.unlockedTopics.last.map { !$0.contains(weights) } == true }
        #expect(recorder.topics.last?.contains(weights) == true, "it stays watched")
    }

    /// No notification is heard: the poll finds it.
    @Test func aTopicIsFoundByThePoll() throws {
        let recorder = try record {
            $0.notifyConnectionString = "host=/nowhere dbname=nothing"
            $0.pollIntervalUnheard = .milliseconds(50)
        }
        let weights = StreamID(user: "x", topic: "weights")
        try recorder.wait("topics") { !recorder.unlockedTopics.isEmpty }
        try writer.execute("CREATE TABLE app.weight (id text PRIMARY KEY, user_id text, grams int)")
        try writer.execute("SELECT sync.publish_changes('app.weight', 'user_id', 'weights', 'weight')")
        try recorder.wait("the topic") { recorder.unlockedTopics.last?.contains(weights) == true }
    }

    /// At the bound topics are known by name; with one more, all topics count as published.
    @Test func boundOnTopics() throws {
        let admin = try database.admin()
        let known = try admin.query("SELECT count(DISTINCT topic) FROM sync.published")[0][0].flatMap { Int($0) } ?? 0
        func add(_ numbers: ClosedRange<Int>) throws {
            // Tables that are gone: the hub sees only their entries.
            _ = try admin.query(
                """
                INSERT INTO sync.published (relation, user_column, topic, event_prefix, id_column, columns, recorder, builder)
                SELECT (1000000 + n)::oid::regclass, 'u', 'z_' || translate(n::text, '0123456789', 'abcdefghij'), 'z', 'id',
                    '{}', 'record_z_' || n, 'sync.z'
                FROM generate_series($1::int, $2::int) AS n
                """, [String(numbers.lowerBound), String(numbers.upperBound)])
        }
        let unknown = StreamID(user: "x", topic: "unknown")
        try add(1...(FeedLimits.topicsMax - known))
        let recorder = try record { $0.pollInterval = .milliseconds(50) }
        try recorder.wait("topics") { !recorder.unlockedTopics.isEmpty }
        #expect(recorder.topics[0].contains(StreamID(user: "x", topic: "items")))
        #expect(!recorder.topics[0].contains(unknown))
        try add((FeedLimits.topicsMax + 1)...(FeedLimits.topicsMax + 1))
        try recorder.wait("all topics") { recorder.unlockedTopics.last?.contains(unknown) == true }
    }
}
