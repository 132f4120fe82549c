import Bytes
import Foundation
import Metrics
import Sync
import Testing

@testable import Store

@Suite(.timeLimit(.minutes(15))) struct StoreMetricsTests {
    private func answered(
        _ metrics: StoreMetrics, _ type: String, _ json: String, _ status: ActionStatus, payload: String = "{}",
        clientTime: String? = nil
    ) {
        let envelope = ActionEnvelope(
            key: "k", type: type, payload: Array(payload.utf8), clientTime: clientTime.map { Array($0.utf8) })
        let answer = ActionAnswer(status: status, json: SharedBytes.copy(json), retry: status == .retry ? .busy : nil)
        metrics.counted(ActionRequest(user: "u", envelope: envelope) { _ in }).answer(answer)
    }

    private func text(_ metrics: StoreMetrics) -> String {
        var exposition = Exposition()
        metrics.append(to: &exposition)
        return String(decoding: exposition.bytes, as: UTF8.self)
    }

    @Test func actionsCountByTypeAndResultRepeatsApart() {
        let metrics = StoreMetrics()
        answered(metrics, "undo", #"{"status":"applied"}"#, .applied)
        answered(metrics, "undo", #"{"status":"applied","replayed":true}"#, .applied)
        answered(metrics, "skip", #"{"status":"conflict","code":"state"}"#, .conflict)
        answered(metrics, "skip", #"{"status":"conflict","code":"state","replayed":true}"#, .conflict)
        answered(metrics, "resolve", #"{"status":"noop"}"#, .noop, payload: #"{"of":"k","choice":"accept_server"}"#)
        answered(metrics, "a peer's own", #"{"status":"rejected","code":"a peer's own"}"#, .rejected)
        answered(metrics, "skip", "", .retry)
        let text = text(metrics)
        for line in [
            #"carillon_actions_total{type="undo",result="applied"} 2"#,
            #"carillon_actions_total{type="skip",result="conflict"} 2"#,
            #"carillon_actions_total{type="other",result="rejected"} 1"#,
            "carillon_action_replays_total 2",
            #"carillon_conflicts_total{code="state"} 1"#,
            #"carillon_resolutions_total{choice="accept_server"} 1"#,
            #"carillon_action_retries_total{reason="busy"} 1"#,
            "carillon_action_seconds_count 7", "carillon_actions_waiting 0",
        ] {
            #expect(text.contains(line + "\n"), "\(line)")
        }
        #expect(!text.contains("peer"))
    }

    /// A type has a name in metrics once the database has accepted an action of it, and a bounded number of types has one.
    @Test func typesThatOperatorsHaveRegisteredCountByName() {
        let metrics = StoreMetrics()
        answered(metrics, "weigh", #"{"status":"rejected","code":"invalid"}"#, .rejected)
        answered(metrics, "weigh", "", .retry)
        answered(metrics, "weigh", #"{"status":"applied"}"#, .applied)
        answered(metrics, "weigh", #"{"status":"rejected","code":"invalid"}"#, .rejected)
        answered(metrics, "weigh", "", .retry)
        for number in 1...StoreMetrics.registeredMax { answered(metrics, "type-\(number)", "{}", .noop) }
        let text = text(metrics)
        for line in [
            #"{type="weigh",result="applied"} 1"#, #"{type="weigh",result="rejected"} 1"#,
            #"{type="weigh",result="retry"} 1"#, #"{type="weigh",result="conflict"} 0"#,
            #"{type="other",result="rejected"} 1"#, #"{type="other",result="retry"} 1"#,
            #"{type="type-49",result="noop"} 1"#, #"{type="other",result="noop"} 1"#,
        ] {
            #expect(text.contains("carillon_actions_total\(line)\n"), "\(line)")
        }
        #expect(!text.contains("type-\(StoreMetrics.registeredMax)"))
        #expect(text.components(separatedBy: "# TYPE carillon_actions_total").count == 2)
    }

    /// Counted once per action, when it is decided.
    @Test func howLongActionsWaitedOnTheirDevices() {
        let metrics = StoreMetrics()
        let hourAgo = (Int64(time(nil)) - 3_700) * 1_000
        answered(metrics, "skip", #"{"status":"applied"}"#, .applied, clientTime: "\(hourAgo)")
        answered(metrics, "skip", #"{"status":"applied"}"#, .applied, clientTime: #""2001-01-01T00:00:00.5+01:00""#)
        answered(metrics, "skip", #"{"status":"applied"}"#, .applied, clientTime: "\(hourAgo + 9_000_000)")
        answered(metrics, "skip", #"{"status":"applied","replayed":true}"#, .applied, clientTime: "\(hourAgo)")
        answered(metrics, "skip", "", .retry, clientTime: "\(hourAgo)")
        answered(metrics, "skip", #"{"status":"applied"}"#, .applied)
        let text = text(metrics)
        for (bound, count) in [("1", 1), ("3600", 1), ("21600", 2), ("2592000", 2), ("+Inf", 3)] {
            let line = #"carillon_device_queue_lag_seconds_bucket{le="\#(bound)"} \#(count)"#
            #expect(text.contains(line + "\n"), "\(line)")
        }
    }

    @Test(arguments: [
        "", "\"", "\"yesterday\"", "1.5", "null", "{}", "9223372036854775807", "-1", "\"2025-11-14T08:00:00\"",
    ])
    func textsThatAreNoTimeAreIgnored(_ text: String) {
        #expect(StoreMetrics.time(Array(text.utf8)) == nil)
    }

    @Test func waitingActionsAreCounted() {
        let metrics = StoreMetrics()
        let request = metrics.counted(
            ActionRequest(user: "u", envelope: ActionEnvelope(key: "k", type: "undo", payload: [])) { _ in })
        #expect(text(metrics).contains("carillon_actions_waiting 1\n"))
        request.answer(.stopping(key: "k"))
        #expect(text(metrics).contains("carillon_actions_waiting 0\n"))
    }

    @Test func snapshotsCountByWhatCameOfThem() {
        let metrics = StoreMetrics(snapshots: ["reminders"])
        metrics.counted(SnapshotSubject.reminders.asked(by: "u") { _ in }).answer(.missing)
        #expect(text(metrics).contains("carillon_snapshots_total{type=\"reminders\",result=\"missing\"} 1\n"))
    }
}
