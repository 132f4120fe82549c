import Clock
import HubEngine

/// Who is online, and which hubs watch whom: `MemoryUsers` is its model.
///
/// `ARGV`, from the sixth: what is asked, then its arguments. A user comes as `APP:USER`, and as its place among the
/// hub's: the caller's number, then the user's (`SharedCommand`). Each call says what is so; its number does not matter.
///
/// Returned is in how many milliseconds `due` has work in the bucket; -1: nothing waits.
enum UserScript {
    /// With the bounds and times of one bucket.
    static func text(_ limits: ShardLimits) -> String {
        """
        local GRACE, DUES, AT_ONCE = \(limits.leaveGrace.wholeNanoseconds / 1_000_000), \(limits.departuresMax), \
        \(limits.dueAtOnceMax)
        local LOST, TOLD, KEPT = 256, 10000, 600000

        """ + users + loss + hubs + calls
    }

    private static let users = #"""
        local D, U, L = P .. 'userDue', P .. 'users:' .. hub, P .. 'lost:' .. hub
        local function open(name)
          local known = call('HGETALL', P .. 'o:' .. name)
          local u = {name = name, key = P .. 'o:' .. name, hubs = 0, present = {}, watching = {}, settled = 0}
          u.app, u.user = name:match('^([^:]*):(.*)$')
          for i = 1, #known, 2 do
            local field, value = known[i], known[i + 1]
            if field == 'leave' then
              u.leave = value
            elseif field == 'settled' then
              u.settled = tonumber(value)
            else
              u.present[field], u.watching[field] = value ~= 'w', value ~= 'p'
              if value ~= 'w' then u.hubs = u.hubs + 1 end
            end
          end
          return u
        end
        -- What the hub has to do with the user has changed, or is so still at another place.
        local function mark(u, hub, place)
          local is = (u.present[hub] and 'p' or '') .. (u.watching[hub] and 'w' or '')
          if is ~= '' then
            call('HSET', u.key, hub, is)
            if place and call('ZADD', P .. 'users:' .. hub, place, u.name) == 1 then
              call('HSETNX', P .. 'hubs', hub, now)
            end
          elseif call('HDEL', u.key, hub) == 1 then
            call('ZREM', P .. 'users:' .. hub, u.name)
          end
        end
        local function close(u)
          if u.hubs > 0 or u.leave then return end
          for _, is in pairs(u.watching) do
            if is then return end
          end
          call('DEL', u.key)
        end
        local function isOnline(u) return u.hubs > 0 or u.leave == 'grace' end
        local function tell(u, hub, serial)
          local version = call('HINCRBY', P .. 'bucket', 'users', 1)
          call('SPUBLISH', P .. 'to:' .. hub, '\1\2' .. text(u.app) .. text(u.user) .. (isOnline(u) and '\1' or '\0')
            .. (serial and '\1' .. num(serial) or '\0') .. num(version))
        end
        local function changed(u)
          for hub, is in pairs(u.watching) do
            if is then tell(u, hub) end
          end
        end
        -- The timer of the last leave does not count any more.
        local function stay(u)
          u.leave = nil
          call('HDEL', u.key, 'leave')
          call('ZREM', D, u.name)
        end
        local function arrive(u, hub, place)
          local was, isNew = isOnline(u), not u.present[hub]
          if isNew then
            if u.leave == 'gone' then call('HSET', u.key, 'settled', now + GRACE) end
            if u.leave then stay(u) end
            u.hubs, u.present[hub] = u.hubs + 1, true
          end
          mark(u, hub, place)
          if not was then changed(u) end
        end
        local function depart(u, hub, mayReturn)
          if not u.present[hub] then return end
          u.hubs, u.present[hub] = u.hubs - 1, false
          mark(u, hub)
          if u.hubs > 0 then return end
          if GRACE == 0 then return changed(u) end
          -- Who leaves by request is offline at once, unless it has done so a moment ago.
          u.leave = (mayReturn or now < u.settled) and 'grace' or 'gone'
          call('HSET', u.key, 'leave', u.leave)
          call('ZADD', D, now + GRACE, u.name)
          if u.leave == 'gone' then changed(u) end
        end
        local function endLeave(name)
          local u = open(name)
          local was = isOnline(u)
          stay(u)
          if was then changed(u) end
          close(u)
        end

        """#

    /// All that a hub has is lost, which is not done yet.
    static let loss = #"""
        local function loseAll(hub)
          local all, lost = P .. 'users:' .. hub, P .. 'lost:' .. hub
          if call('EXISTS', all) == 0 then return end
          if call('RENAMENX', all, lost) == 0 then
            call('ZUNIONSTORE', lost, 2, lost, all, 'AGGREGATE', 'MIN')
            call('DEL', all)
          end
          call('SADD', P .. 'lost', hub)
        end

        """#

    private static let hubs = #"""
        local function unwatch(u, hub, place)
          if not u.watching[hub] then return end
          u.watching[hub] = false
          mark(u, hub, place)
        end
        local function lose(u, hub)
          depart(u, hub, true)
          unwatch(u, hub)
        end
        -- A page of what a hub has no more: the rest follows when it is due.
        local function losePage(hub)
          local page = call('ZPOPMIN', P .. 'lost:' .. hub, LOST)
          for i = 1, #page, 2 do
            local u = open(page[i])
            lose(u, hub)
            close(u)
          end
          call(call('EXISTS', P .. 'lost:' .. hub) == 1 and 'SADD' or 'SREM', P .. 'lost', hub)
        end
        local function done()
          while call('ZCARD', D) > DUES do endLeave(call('ZPOPMIN', D)[1]) end
          if call('EXISTS', P .. 'lost') == 1 then return 0 end
          local first = call('ZRANGE', D, 0, 0, 'WITHSCORES')
          return first[2] and max(0, tonumber(first[2]) - now) or -1
        end

        """#

    private static let calls = #"""
        local asked = ARGV[6]
        if asked == 'due' then
          local lost = call('SRANDMEMBER', P .. 'lost')
          if lost then losePage(lost) end
          for _, name in ipairs(call('ZRANGEBYSCORE', D, '-inf', now, 'LIMIT', 0, AT_ONCE)) do endLeave(name) end
          return done()
        elseif asked == 'reap' then
          local dead = ARGV[7]
          fence(dead)
          loseAll(dead)
          losePage(dead)
          return done()
        elseif asked == 'only' then
          -- All between the two places are lost, but those who are said. They may be many: they are moved in one piece.
          local from, to, part = ARGV[7], '(' .. ARGV[8], P .. 'part'
          if call('ZRANGESTORE', part, U, from, to, 'BYSCORE') > 0 then
            call('ZREMRANGEBYSCORE', U, from, to)
            call('ZUNIONSTORE', L, 2, L, part, 'AGGREGATE', 'MIN')
            call('DEL', part)
          end
          for i = 9, #ARGV, 2 do
            local u = open(ARGV[i])
            call('ZREM', L, u.name)
            arrive(u, hub, ARGV[i + 1])
            unwatch(u, hub)
            close(u)
          end
          losePage(hub)
          return done()
        end
        if asked == 'command' then
          local message = text(hub) .. num(tonumber(ARGV[8])) .. num(tonumber(ARGV[9])) .. ARGV[7]
          call('SPUBLISH', P .. 'commands', num(now) .. message)
          -- A full Redis still passes it on: 0 says that it is not kept.
          local kept = redis.pcall('XADD', P .. 'told', 'MAXLEN', '~', TOLD, '*', 'm', message)
          if type(kept) == 'table' and kept.err then return 0 end
          redis.pcall('XTRIM', P .. 'told', 'MINID', '~', string.format('%d', now - KEPT))
          return 1
        elseif asked == 'missed' then
          -- Behind that one, and of the last ten minutes, by pages: each with its age.
          local after = ARGV[7] ~= '' and '(' .. ARGV[7] or string.format('%d', max(now - KEPT, tonumber(ARGV[8])))
          local entries, answer = call('XRANGE', P .. 'told', after, '+', 'COUNT', 128), {}
          for i, entry in ipairs(entries) do
            answer[i] = {entry[1], max(1, now - tonumber(entry[1]:match('^%d+'))), entry[2][2]}
          end
          return answer
        end
        local u, place = open(ARGV[7]), ARGV[8]
        if call('ZREM', L, u.name) == 1 then lose(u, hub) end
        if asked == 'arrived' then
          arrive(u, hub, place)
        elseif asked == 'departed' then
          depart(u, hub, ARGV[9] == '1')
        elseif asked == 'watch' then
          u.watching[hub] = true
          mark(u, hub, place)
          tell(u, hub, tonumber(ARGV[9]))
        elseif asked == 'unwatch' then
          unwatch(u, hub)
        end
        close(u)
        return done()

        """#
}
