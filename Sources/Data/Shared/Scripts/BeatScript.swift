import Clock

/// What each hub says of each bucket every second: that it lives. The first to say so in a second has all hubs told what has
/// changed, has the dead ones reaped, and hears what is due: as long as it lives, it is the same one, and does that for all.
///
/// `ARGV`, from the sixth: the server's replication id, a number that nobody else has, what operators are told of the hub,
/// or nothing, what the hub has of limited apps behind `=`, or nothing, then apps. It returns in how many milliseconds
/// something is due about channels, and about users (-1: nothing is, or another hub hears it), for how many milliseconds
/// the bucket settles, what each other hub has, if this one has said so, how many channels the bucket has of each of the
/// apps, and how many hubs live; where operators are told of the hub, also what they are told of each, and who was taken
/// for dead a moment ago.
///
/// A bucket that was empty, is at another server, or was out of reach for all, settles for a while: hubs say again what they
/// hold, and what is missing may only not have been said yet. Nor do they hear events before they have connected again.
///
/// A lease counts only time in which hubs could write: it begins anew when nobody has said anything for a while, and with
/// another server, or the first hub back after an outage would reap all others.
enum BeatScript {
    /// Silence of all hubs after which leases begin anew.
    static let silence = Duration.milliseconds(2_500)

    static func text(lease: Duration, settling: Duration) -> String {
        """
        local LEASE, SETTLING, SILENCE = \(lease.wholeNanoseconds / 1_000_000), \
        \(settling.wholeNanoseconds / 1_000_000), \(silence.wholeNanoseconds / 1_000_000)

        """ + UserScript.loss + #"""
            -- Hubs that were reaped long ago say nothing any more.
            local function forget()
              local all, dead = call('HGETALL', P .. 'callers'), {}
              for i = 1, #all, 2 do
                local is = all[i]:match('^%d+$')
                if is and now - tonumber(all[i + 1]) > 86400000 then dead[is] = true end
              end
              for i = 1, #all, 2 do
                if dead[all[i]:match('^(%d+)') or ''] then call('HDEL', P .. 'callers', all[i]) end
              end
            end
            local B, replica, unique = P .. 'bucket', ARGV[6], ARGV[7]
            call('HSET', P .. 'hubs', hub, now)
            if ARGV[8] ~= '' then call('HSET', P .. 'about', hub, ARGV[8]) end
            local others, counts = {}, {}
            if ARGV[9] ~= '' then
              local uses = call('HGETALL', P .. 'uses')
              for i = 1, #uses, 2 do
                if call('HEXISTS', P .. 'hubs', uses[i]) == 0 then
                  call('HDEL', P .. 'uses', uses[i])
                elseif uses[i] ~= hub then
                  others[#others + 1] = uses[i + 1]
                end
              end
              if #ARGV[9] > 1 then
                call('HSET', P .. 'uses', hub, ARGV[9]:sub(2))
              elseif #uses > 0 then
                call('HDEL', P .. 'uses', hub)
              end
            end
            for from = 10, #ARGV, 500 do
              local fields = {}
              for i = from, min(from + 499, #ARGV) do fields[#fields + 1] = 'channels:' .. ARGV[i] end
              for _, count in ipairs(call('HMGET', B, unpack(fields))) do counts[#counts + 1] = count or '0' end
            end
            local known = call('HMGET', B, 'seenAt', 'since', 'replica', 'epoch', 'beatAt')
            local since, epoch = tonumber(known[2] or now), known[4]
            local function settle()
              since, callers[3] = now, now + SETTLING
              call('HSET', B, 'since', now)
              call('HSET', P .. 'callers', 'settledAt', now + SETTLING)
            end
            if known[3] ~= replica then
              epoch = unique
              call('HSET', B, 'replica', replica, 'epoch', epoch, 'seenSince', now)
              settle()
              -- Above all that the other server has had: what is new must not look old to hubs that have come far there.
              if now * 1024 > tonumber(call('HGET', B, 'sequence') or 0) then
                call('HSET', B, 'sequence', string.format('%d', now * 1024))
              end
            elseif now - tonumber(known[1]) > SILENCE then
              settle()
            end
            -- Only the first loop of a hub does what is due: another one, which speaks for it, lets other hubs be first.
            local isFirst = now - tonumber(known[5] or 0) >= (caller == hub .. '.0' and 950 or 1950)
            if isFirst then
              call('HSET', B, 'seenAt', now, 'beatAt', now)
            else
              call('HSET', B, 'seenAt', now)
            end
            if isFirst and now - since >= LEASE then
              local hubs = call('HGETALL', P .. 'hubs')
              for i = 1, #hubs, 2 do
                local silence = now - tonumber(hubs[i + 1])
                if silence >= LEASE then
                  fence(hubs[i])
                  if ARGV[8] ~= '' then
                    call('HSET', P .. 'dead', hubs[i], silence)
                    call('PEXPIRE', P .. 'dead', 60000)
                  end
                  call('ZADD', P .. 'due', now, 'x' .. hubs[i])
                  loseAll(hubs[i])
                end
              end
            end
            local delay, userDelay = -1, -1
            if isFirst then
              local changed, list = call('HGETALL', P .. 'changed'), {}
              for i = 1, #changed, 2 do
                local app, channel = changed[i]:match('^([^:]*):(.*)$')
                list[#list + 1] = text('\1\1\4' .. text(app) .. text(channel) .. num(tonumber(changed[i + 1])))
              end
              if #changed > 0 then call('DEL', P .. 'changed') end
              local beat = call('HINCRBY', B, 'beats', 1)
              call('SPUBLISH', P .. 'beat', text(epoch) .. num(beat) .. table.concat(list))
              if beat % 3600 == 0 then forget() end
              local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
              if first[2] then delay = max(0, tonumber(first[2]) - now) end
              if call('EXISTS', P .. 'lost') == 1 then
                userDelay = 0
              else
                local user = call('ZRANGE', P .. 'userDue', 0, 0, 'WITHSCORES')
                if user[2] then userDelay = max(0, tonumber(user[2]) - now) end
              end
            end
            -- Each hub hears this: the one that tells may be another than the first.
            if call('XLEN', P .. 'webhooks') > 0 then
              local tells = max(0, tonumber(call('HGET', B, 'tellsUntil') or now) - now)
              delay = delay < 0 and tells or min(delay, tells)
            end
            local isAsked = ARGV[8] ~= ''
            return {delay, userDelay, max(0, tonumber(callers[3] or now + 1) - now), others, counts,
              call('HLEN', P .. 'hubs'), isAsked and call('HGETALL', P .. 'about') or {},
              isAsked and call('HGETALL', P .. 'dead') or {}}

            """#
    }
}
