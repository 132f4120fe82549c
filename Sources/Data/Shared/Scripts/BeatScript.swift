import Clock

/// What each hub says of each bucket every second: that it lives. The first to say so in a second has all hubs told what has
/// changed, and has the dead ones reaped.
///
/// `ARGV`, from the sixth: the server's replication id, and a number that nobody else has. Answers: the time, the bucket's
/// epoch, in how many milliseconds something is due, or -1, and whether the bucket settles: hubs say again what they hold,
/// and what is missing may only not have been said yet.
///
/// A lease counts only time in which hubs could write: it begins anew when nobody has said anything for a while, and with
/// another server, or the first hub back after an outage would reap all others.
enum BeatScript {
    /// How long a bucket settles that was empty, or is at another server: two beats, and some time to say it.
    static let settling = Duration.seconds(3)
    /// Silence of all hubs after which leases begin anew.
    static let silence = Duration.milliseconds(2_500)

    static func text(lease: Duration) -> String {
        """
        local LEASE, SETTLING, SILENCE = \(lease.wholeNanoseconds / 1_000_000), \
        \(settling.wholeNanoseconds / 1_000_000), \(silence.wholeNanoseconds / 1_000_000)

        """ + #"""
            local B, replica, unique = P .. 'bucket', ARGV[6], ARGV[7]
            call('HSET', P .. 'hubs', hub, now)
            local known = call('HMGET', B, 'seenAt', 'since', 'replica', 'epoch', 'settledAt', 'beatAt', 'sequence')
            local since, epoch = tonumber(known[2] or now), known[4]
            local settledAt = tonumber(known[5] or now)
            if known[3] ~= replica then
              since, epoch, settledAt = now, unique, now + SETTLING
              call('HSET', B, 'replica', replica, 'epoch', epoch, 'settledAt', settledAt)
            elseif now - tonumber(known[1]) > SILENCE then
              since = now
            end
            call('HSET', B, 'seenAt', now, 'since', since)
            if now - since >= LEASE then
              local hubs = call('HGETALL', P .. 'hubs')
              for i = 1, #hubs, 2 do
                if now - tonumber(hubs[i + 1]) >= LEASE then
                  call('HDEL', P .. 'hubs', hubs[i])
                  call('HSET', P .. 'callers', hubs[i], now)
                  call('ZADD', P .. 'due', now, 'x' .. hubs[i])
                end
              end
            end
            if not known[6] or now - tonumber(known[6]) >= 950 then
              local changed, list = call('HGETALL', P .. 'changed'), {}
              for i = 1, #changed, 2 do
                local app, channel = changed[i]:match('^([^:]*):(.*)$')
                list[#list + 1] = text('\1\1\4' .. text(app) .. text(channel) .. num(tonumber(changed[i + 1])))
              end
              call('DEL', P .. 'changed')
              call('HSET', B, 'beatAt', now)
              local beat = call('HINCRBY', B, 'beats', 1)
              call('SPUBLISH', P .. 'beat', text(epoch) .. num(beat) .. table.concat(list))
            end
            local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
            local delay = first[2] and max(0, tonumber(first[2]) - now) or -1
            return {now, epoch, delay, settledAt > now and 1 or 0}

            """#
    }
}
