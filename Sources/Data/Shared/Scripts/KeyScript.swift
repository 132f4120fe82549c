/// Which publishes have come under an `Idempotency-Key`, to any hub, and what was answered; and which signed calls have
/// come.
///
/// `ARGV`, from the sixth: what is asked, and the app. Of `see` and `forget` then the call's time in seconds, and its mark.
/// Of the others the key (its digest), and the ticket: who has begun the publish; then of `begin` the call (its digest), and
/// of `settle` the answer.
///
/// Worst interleaving: the hub that has begun dies, and its backend repeats the call at another one. That one goes on in
/// its place; the channels that have the event already know it by its id (`EventScript`, `publish`).
enum KeyScript {
    static let text = #"""
        if ARGV[6] == 'see' or ARGV[6] == 'forget' then
          -- By the minute in which it was signed: it is good for ten minutes before that time and after it.
          local seconds = tonumber(ARGV[8])
          local minute = floor(seconds / 60)
          local seen = P .. 'seen:' .. ARGV[7] .. ':' .. minute
          if ARGV[6] == 'forget' then
            call('SREM', seen, ARGV[9])
            return 'new'
          end
          if settles() then return redis.error_reply(SETTLES) end
          if call('SISMEMBER', seen, ARGV[9]) == 1 then return 'seen' end
          if seconds * 1000 + 999 <= tonumber(call('HGET', P .. 'bucket', 'seenSince') or now) then return 'early' end
          if call('SCARD', seen) >= 4096 then return 'full' end
          call('SADD', seen, ARGV[9])
          call('PEXPIREAT', seen, (minute + 1) * 60000 + 660000)
          return 'new'
        end
        -- How long a publish is remembered that nobody has settled, and one that was; how long one may take; what one costs
        -- beside its answer, and what all may.
        local BEGUN, KEPT, TAKES, COST, COSTS = 600000, 3600000, 10000, 600, 1048576
        local asked, app, key, ticket = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
        local K, O, C = P .. 'k:' .. app .. ':' .. key, P .. 'keys:' .. app, P .. 'costs:' .. app
        local function add(app, cost)
          if tonumber(call('ZINCRBY', P .. 'costs', cost, app)) <= 0 then call('ZREM', P .. 'costs', app) end
          return call('INCRBY', P .. 'cost', cost)
        end
        local function drop(app, key)
          if call('ZREM', P .. 'keys:' .. app, key) == 0 then return end
          add(app, -tonumber(call('HGET', P .. 'costs:' .. app, key) or 0))
          call('HDEL', P .. 'costs:' .. app, key)
          call('DEL', P .. 'k:' .. app .. ':' .. key)
        end
        -- The app that has most loses its oldest, unless that is under way. Whether there is room.
        local function makesRoom(cost)
          while tonumber(call('GET', P .. 'cost') or 0) + cost > COSTS do
            local most = call('ZREVRANGE', P .. 'costs', 0, 0)[1]
            local oldest = most and call('ZRANGE', P .. 'keys:' .. most, 0, 0)[1]
            if not oldest then return false end
            local old = call('HMGET', P .. 'k:' .. most .. ':' .. oldest, 'answer', 'at')
            if old[2] and not old[1] and now - tonumber(old[2]) < TAKES then return false end
            drop(most, oldest)
          end
          return true
        end
        local known = call('HMGET', K, 'call', 'ticket', 'owner', 'at', 'answer')
        if asked == 'begin' then
          if settles() then return redis.error_reply(SETTLES) end
          for _, old in ipairs(call('ZRANGEBYSCORE', O, '-inf', now, 'LIMIT', 0, 16)) do drop(app, old) end
          if known[1] then
            if known[1] ~= ARGV[10] then return {'other'} end
            if known[5] then return {'kept', known[5]} end
            local lives = call('HEXISTS', P .. 'hubs', known[3]) == 1
            if known[2] ~= ticket and lives and now - tonumber(known[4]) < TAKES then return {'underWay'} end
            call('HSET', K, 'ticket', ticket, 'owner', hub, 'at', now)
            return {'new'}
          end
          drop(app, key)
          if not makesRoom(COST) then return {'full'} end
          call('HSET', K, 'call', ARGV[10], 'ticket', ticket, 'owner', hub, 'at', now)
          call('PEXPIRE', K, BEGUN)
          call('ZADD', O, now + KEPT, key)
          call('HSET', C, key, COST)
          add(app, COST)
          return {'new'}
        end
        if known[2] ~= ticket or known[5] then return {'done'} end
        if asked == 'settle' then
          call('HSET', K, 'answer', ARGV[10])
          call('PEXPIRE', K, KEPT)
          call('HINCRBY', C, key, #ARGV[10])
          add(app, #ARGV[10])
          makesRoom(0)
        else
          drop(app, key)
        end
        return {'done'}

        """#
}
