import Postgres

/// The statements of the outbox.
enum OutboxStatement {
    static var greeting: ConnectionSlot.Greeting {
        ConnectionSlot.Greeting(
            """
            SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),
                set_config('idle_session_timeout', '0', false), set_config('sync.lineage', '', false),
                set_config('sync.system', '', false),
                set_config('default_transaction_isolation', 'read committed', false)
            """, [OutboxLimits.lockTimeout.setting, OutboxLimits.statementTimeout.setting],
            timeout: OutboxLimits.statementTimeout)
    }

    /// `$1` the hub, `$2` the most pushes of each platform, `$3` the lease in seconds, `$4` whether texts have labels,
    /// `$5` the share of a user, `$6` and `$7` platforms and users who have theirs.
    /// The clock is read before the tokens are: a token that a device registers meanwhile is younger.
    static let claim = """
        WITH c AS MATERIALIZED (SELECT sync.clock() AS at)
        SELECT p.id, p.attempt, p.platform, p.token, p.environment, p.topic, p.user_id, p.device_id, p.occurrence_id,
            p.rule_id, p.kind, p.title, p.body, (extract(epoch FROM p.start) * 1000000)::bigint,
            (extract(epoch FROM p.expires_at) * 1000000)::bigint, p.epoch, p.top,
            (extract(epoch FROM c.at) * 1000000)::bigint
        FROM c CROSS JOIN LATERAL sync.claim_pushes($1, $2::int[], make_interval(secs => $3::int), $4::boolean, $5::int,
            $6::text[], $7::text[]) AS p
        """

    static func claiming(
        _ hub: String, _ rooms: [PushPlatform: Int], full: Set<HeldPushes.Holder>, showsLabels: Bool
    ) -> [String?] {
        let rooms = PushPlatform.allCases.map { "\(rooms[$0, default: 0])" }.joined(separator: ",")
        var lanes = TextArray()
        var users = TextArray()
        for holder in full {
            lanes.append(holder.lane.rawValue)
            users.append(holder.userID)
        }
        return [
            hub, "{\(rooms)}", "\(OutboxLimits.lease.components.seconds)", "\(showsLabels)",
            "\(OutboxLimits.shareOfUser)", lanes.closed(), users.closed(),
        ]
    }

    /// Gives the pushes that it could not settle. `$1` the hub; then arrays: pushes, attempts, results, seconds until the
    /// next try, and microseconds since 1970 before which a token must have been registered to be dropped.
    static let settle = """
        SELECT * FROM sync.settle_pushes($1, $2::bigint[], $3::int[], $4::text[], $5::int[],
            ARRAY(SELECT timestamptz 'epoch' + u.at * interval '1 microsecond'
                FROM unnest($6::bigint[]) WITH ORDINALITY AS u (at, n) ORDER BY u.n))
        """

    static func settlement(_ hub: String, _ outcomes: some Collection<PushOutcome>) -> [String?] {
        func array(_ element: (PushOutcome) -> String?) -> String {
            "{" + outcomes.map { element($0) ?? "NULL" }.joined(separator: ",") + "}"
        }
        return [
            hub, array { "\($0.id)" }, array { "\($0.attempt)" }, array { $0.result.rawValue },
            array { $0.retrySeconds.map(String.init) }, array { $0.dropBefore.map(String.init) },
        ]
    }

    static let state = "SELECT s.waiting, s.oldest_seconds, s.declined FROM sync.push_state() AS s"
}
