/// Which publishes have come under an `Idempotency-Key`, to any hub, and what was answered.
///
/// `ARGV`, from the sixth: what is asked, the app, the key (its digest), and the ticket: who has begun the publish. Then of
/// `begin` the call (its digest), and of `settle` the answer.
///
/// Worst interleaving: the hub that has begun dies, and its backend repeats the call at another one. That one goes on in
/// its place; the channels that have the event already know it by its id (`EventScript`, `publish`).
enum KeyScript {
    static let text = #"""
        -- How long a key is kept, how long a publish may take, what one costs beside its answer, and what all may.
        local KEPT, TAKES, COST, COSTS = 3600000, 10000, 200, 1048576
        local asked, app, key, ticket = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
        local K, O, C = P .. 'k:' .. app .. ':' .. key, P .. 'keys:' .. app, P .. 'costs:' .. app
        local function add(app, cost)
          if call('HINCRBY', P .. 'costs', app, cost) <= 0 then call('HDEL', P .. 'costs', app) end
          call('HINCRBY', P .. 'costs', '', cost)
        end
        local function drop(app, key)
          if call('ZREM', P .. 'keys:' .. app, key) == 0 then return end
          add(app, -tonumber(call('HGET', P .. 'costs:' .. app, key) or 0))
          call('HDEL', P .. 'costs:' .. app, key)
          call('DEL', P .. 'k:' .. app .. ':' .. key)
        end
        local function costs(cost)
          call('HINCRBY', C, key, cost)
          add(app, cost)
          -- The app that has most loses its oldest.
          while tonumber(call('HGET', P .. 'costs', '')) > COSTS do
            local all, most, largest = call('HGETALL', P .. 'costs'), nil, 0
            for i = 1, #all, 2 do
              if all[i] ~= '' and tonumber(all[i + 1]) > largest then
                most, largest = all[i], tonumber(all[i + 1])
              end
            end
            local oldest = most and call('ZRANGE', P .. 'keys:' .. most, 0, 0)[1]
            if not oldest then break end
            drop(most, oldest)
          end
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
          call('HSET', K, 'call', ARGV[10], 'ticket', ticket, 'owner', hub, 'at', now)
          call('PEXPIRE', K, KEPT)
          call('ZADD', O, now + KEPT, key)
          costs(COST)
          return {'new'}
        end
        if known[2] ~= ticket or known[5] then return {'done'} end
        if asked == 'settle' then
          call('HSET', K, 'answer', ARGV[10])
          costs(#ARGV[10])
        else
          drop(app, key)
        end
        return {'done'}

        """#
}
