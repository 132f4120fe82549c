import Clock
import HubEngine

/// All that concerns who is in a channel, and what is kept of it: `MemoryChannels` is its model.
///
/// `ARGV`, from the sixth: what is asked, then its arguments. A channel comes as app, name and letters: `P` presence, `K`
/// cache, `N` counts are told, and what the app's backend is told: `o` occupied and vacated, `p` members, `c` cache misses,
/// `s` counts.
enum ChannelScript {
    /// With the bounds and times of one bucket.
    static func text(_ limits: ShardLimits) -> String {
        constants(limits) + channels + counts + members + hubs + dues + questions + calls
    }

    private static func constants(_ limits: ShardLimits) -> String {
        func milliseconds(_ duration: Duration) -> UInt64 { duration.wholeNanoseconds / 1_000_000 }
        return """
            local GRACE, PAUSE = \(milliseconds(limits.leaveGrace)), \(milliseconds(limits.webhookPause))
            local FEW, PROMPT, SELDOM = \(limits.promptCountsMax), \(milliseconds(limits.promptInterval)), \
            \(milliseconds(limits.countInterval))
            local MISS, KEPT, KEPT_BYTES = \(milliseconds(limits.missInterval)), \(milliseconds(limits.cacheTime)), \
            \(limits.cacheBytesMax)
            local LIST_BYTES, DUES, AT_ONCE, TOLD = \(limits.membersBytesMax), \(limits.departuresMax), \
            \(limits.dueAtOnceMax), \(limits.toldAtOnceMax)
            local WEBHOOKS, WEBHOOK_PAGE, TELLING, PAGE, REAPED = 100000, 128, 3000, 32768, 256

            """
    }

    private static let channels = #"""
        local function open(app, channel, flags)
          local name = app .. ':' .. channel
          local c = {app = app, channel = channel, name = name, C = P .. 'c:' .. name, M = P .. 'm:' .. name,
            G = P .. 'g:' .. name, R = P .. 'r:' .. name}
          local known = call('HMGET', c.C, 'sequence', 'total', 'flags', 'bytes', 'leaving', 'vacating', 'owes', 'silence',
            'owesCount', 'toldAt', 'kept', 'missed')
          c.exists = known[1] and true
          if not c.exists and not flags then return nil end
          c.sequence = tonumber(known[1] or call('HGET', P .. 'bucket', 'sequence') or 0)
          c.total, c.flags = tonumber(known[2] or 0), flags or known[3]
          -- Bytes of the list, and of those in it who are in their grace.
          c.bytes, c.leaving = tonumber(known[4] or 0), tonumber(known[5] or 0)
          c.vacating, c.owes, c.silence = known[6] == '1', known[7] == '1', known[8] or ''
          c.owesCount, c.toldAt = known[9] == '1', tonumber(known[10] or 0)
          -- Bytes of the event that is kept.
          c.kept, c.missed = tonumber(known[11] or 0), known[12] == '1'
          c.isPresence, c.isCache = c.flags:find('P') ~= nil, c.flags:find('K') ~= nil
          c.tellsCounts = not c.isPresence and c.flags:find('N') ~= nil
          if not c.exists then
            call('SADD', P .. 'apps:' .. app, channel)
            call('HINCRBY', P .. 'bucket', 'channels:' .. app, 1)
          end
          return c
        end
        local function asks(c, letter) return c.flags:find(letter) ~= nil end
        local function bit(b) return b and '1' or '0' end
        local function close(c)
          if c.total == 0 and c.kept == 0 and not c.vacating and c.silence == '' and not c.missed
            and call('EXISTS', c.M, c.R) == 0 then
            call('DEL', c.C)
            call('HDEL', P .. 'changed', c.name)
            call('SREM', P .. 'apps:' .. c.app, c.channel)
            if call('HINCRBY', P .. 'bucket', 'channels:' .. c.app, -1) == 0 then
              call('HDEL', P .. 'bucket', 'channels:' .. c.app)
            end
            return
          end
          call('HSET', c.C, 'sequence', c.sequence, 'total', c.total, 'flags', c.flags, 'bytes', c.bytes,
            'leaving', c.leaving, 'vacating', bit(c.vacating), 'owes', bit(c.owes), 'silence', c.silence,
            'owesCount', bit(c.owesCount), 'toldAt', c.toldAt, 'kept', c.kept, 'missed', bit(c.missed))
        end
        -- Makes it the channel's next change.
        local function tell(c, content)
          local follows = c.sequence
          c.sequence = call('HINCRBY', P .. 'bucket', 'sequence', 1)
          if c.total == 0 then return end
          call('HSET', P .. 'changed', c.name, c.sequence)
          call('SPUBLISH', c.C, '\1\1\1' .. text(c.app) .. text(c.channel) .. num(follows) .. num(c.sequence) .. content)
          c.told = (c.told or 0) + c.total
        end
        -- By the number in their ids, the one who tells the backend sees what was cut.
        local function webhook(c, content)
          local id = call('HINCRBY', P .. 'bucket', 'webhooks', 1)
          call('XADD', P .. 'webhooks', 'MAXLEN', '~', WEBHOOKS, id .. '-0', 'e', '\1\1\2' .. text(c.app) .. content)
        end
        local function read(bytes, at)
          local length, unit = 0, 1
          repeat
            local b = bytes:byte(at)
            length = length + (b % 128) * unit
            unit, at = unit * 128, at + 1
          until b < 128
          return bytes:sub(at, at + length - 1), at + length
        end
        local function due(kind, c, user, at)
          call('ZADD', P .. 'due', at, kind .. text(c.app) .. text(c.channel) .. (user or ''))
        end
        local function undue(kind, c, user)
          call('ZREM', P .. 'due', kind .. text(c.app) .. text(c.channel) .. (user or ''))
        end

        """#

    private static let counts = #"""
        local function isSilent(c)
          return c.silence ~= '' and (c.silence == 'prompt' or c.total > FEW or now < c.toldAt + PROMPT)
        end
        local function endSilence(c)
          if c.silence ~= '' then undue('c', c) end
          c.silence = ''
        end
        local function beginSilence(c)
          c.silence = c.total > FEW and 'long' or 'prompt'
          due('c', c, nil, now + (c.silence == 'long' and SELDOM or PROMPT))
        end
        local function tellCount(c)
          endSilence(c)
          c.owesCount, c.toldAt = false, now
          if c.total > 0 then tell(c, '\5' .. num(c.total)) end
          if asks(c, 's') then webhook(c, '\7' .. text(c.channel) .. num(c.total)) end
          if c.total > 0 or asks(c, 's') then beginSilence(c) end
        end
        local function countChanged(c)
          if not c.tellsCounts then return end
          if not isSilent(c) then return tellCount(c) end
          c.owesCount = true
          if c.silence == 'long' and c.total <= FEW then
            endSilence(c)
            beginSilence(c)
          end
        end
        local function missed(c)
          if not asks(c, 'c') or c.missed then return end
          webhook(c, '\6' .. text(c.channel))
          c.missed = true
          due('m', c, nil, now + MISS)
        end
        -- What is kept of an app's events lies in the order of its end.
        local function drop(c)
          if c.kept == 0 then return end
          call('DEL', P .. 'e:' .. c.name)
          call('ZREM', P .. 'kept:' .. c.app, c.channel)
          if call('HINCRBY', P .. 'kept', c.app, -c.kept) <= 0 then call('HDEL', P .. 'kept', c.app) end
          call('HINCRBY', P .. 'bucket', 'kept', -c.kept)
          undue('k', c)
          c.kept = 0
        end
        local function keep(c, event)
          drop(c)
          if c.missed then undue('m', c) end
          c.missed = false
          c.kept = #event + #c.channel + 512
          call('SET', P .. 'e:' .. c.name, event)
          call('ZADD', P .. 'kept:' .. c.app, now + KEPT, c.channel)
          call('HINCRBY', P .. 'kept', c.app, c.kept)
          due('k', c, nil, now + KEPT)
          local all = call('HINCRBY', P .. 'bucket', 'kept', c.kept)
          while all > KEPT_BYTES do
            -- The app with most loses its oldest, but never its last one.
            local most, bytes = nil, 0
            local apps = call('HGETALL', P .. 'kept')
            for i = 1, #apps, 2 do
              if tonumber(apps[i + 1]) > bytes and call('ZCARD', P .. 'kept:' .. apps[i]) > 1 then
                most, bytes = apps[i], tonumber(apps[i + 1])
              end
            end
            if not most then break end
            local oldest = call('ZRANGE', P .. 'kept:' .. most, 0, 0)[1]
            local other = most == c.app and oldest == c.channel and c or open(most, oldest)
            drop(other)
            if other ~= c then close(other) end
            all = tonumber(call('HGET', P .. 'bucket', 'kept'))
          end
        end
        -- The event, and for how many seconds it is kept.
        local function kept(c)
          if c.kept == 0 then return nil end
          local left = tonumber(call('ZSCORE', P .. 'kept:' .. c.app, c.channel)) - now
          if left > 0 then return call('GET', P .. 'e:' .. c.name), floor((left + 999) / 1000) end
        end

        """#

    private static let members = #"""
        local function member(c, user)
          local value = call('HGET', c.M, user)
          if not value then return nil end
          local connections, settled, size, info = value:match('^(%d+):(%d+):(%d+):(.*)$')
          return {connections = tonumber(connections), settled = tonumber(settled), size = tonumber(size), info = info}
        end
        local function put(c, user, m)
          call('HSET', c.M, user, m.connections .. ':' .. m.settled .. ':' .. m.size .. ':' .. m.info)
        end
        local function tellRemoved(c, user)
          if asks(c, 'p') then webhook(c, '\4' .. text(c.channel) .. text(user)) end
        end
        local function tellVacated(c)
          if not asks(c, 'o') then return end
          if call('EXISTS', c.M) == 1 then
            c.owes = true
          else
            webhook(c, '\2' .. text(c.channel))
          end
        end
        local function occupied(c)
          if c.vacating then
            c.vacating = false
            undue('v', c)
          elseif c.owes then
            c.owes = false
          elseif asks(c, 'o') then
            webhook(c, '\1' .. text(c.channel))
          end
        end
        local function vacated(c)
          if not asks(c, 'o') then return end
          if PAUSE == 0 then return tellVacated(c) end
          c.vacating = true
          due('v', c, nil, now + PAUSE)
        end
        local function removed(c, user)
          local m = member(c, user)
          call('HDEL', c.M, user)
          c.bytes = c.bytes - m.size
          if call('ZREM', c.G, user) == 1 then c.leaving = c.leaving - m.size end
          tell(c, '\4' .. text(user))
        end
        -- The shorter of grace and pause is over.
        local function shorterIsOver(c, user)
          local isMember = call('HEXISTS', c.M, user) == 1
          if GRACE < PAUSE and isMember then
            removed(c, user)
            call('HSET', c.R, user, '0')
          elseif PAUSE < GRACE and not isMember then
            call('HSET', c.R, user, '1')
            tellRemoved(c, user)
          end
        end
        local function over(c, user)
          if call('HEXISTS', c.M, user) == 1 then removed(c, user) end
          if call('HGET', c.R, user) ~= '1' then tellRemoved(c, user) end
          call('HDEL', c.R, user)
          if c.owes and call('EXISTS', c.M) == 0 then
            c.owes = false
            tellVacated(c)
          end
        end
        local function returned(c, user)
          undue('l', c, user)
          if GRACE ~= PAUSE then undue('s', c, user) end
        end
        -- The user's last connection has ended. Who leaves by request is removed at once, unless it has done so a moment ago.
        local function left(c, user, m, mayReturn)
          if GRACE > 0 and (mayReturn or now < m.settled) then
            call('ZADD', c.G, now, user)
            c.leaving = c.leaving + m.size
          else
            removed(c, user)
            call('HSET', c.R, user, '0')
          end
          local first, last = min(GRACE, PAUSE), max(GRACE, PAUSE)
          if last == 0 then return over(c, user) end
          if first == 0 then shorterIsOver(c, user) end
          due('l', c, user, now + last)
          if first > 0 and first < last then due('s', c, user, now + first) end
        end
        local function leave(c, user, count, mayReturn)
          local m = member(c, user)
          if not m or count == 0 then return end
          m.connections = m.connections - count
          put(c, user, m)
          if m.connections == 0 then left(c, user, m, mayReturn) end
        end
        -- Newcomers are told this of the member from now on: hubs have copies.
        local function says(c, user, m, info, size)
          local isNews = m.info ~= info
          c.bytes = c.bytes + size - m.size
          m.info, m.size = info, size
          put(c, user, m)
          if isNews then tell(c, '\6' .. text(user) .. text(info)) end
        end
        local function arrived(c, user, info, size, count)
          local m = member(c, user)
          if m then
            if m.connections == 0 and call('ZREM', c.G, user) == 1 then
              c.leaving = c.leaving - m.size
              returned(c, user)
            end
            m.connections = m.connections + count
            return says(c, user, m, info, size)
          end
          local gone = call('HGET', c.R, user)
          if gone then
            call('HDEL', c.R, user)
            returned(c, user)
          end
          put(c, user, {connections = count, settled = gone and now + GRACE or 0, size = size, info = info})
          c.bytes = c.bytes + size
          tell(c, '\3' .. text(user) .. text(info))
          if gone ~= '0' and asks(c, 'p') then webhook(c, '\3' .. text(c.channel) .. text(user)) end
        end
        -- Whether there is room for what is said of the user, where that many users and bytes do not count.
        local function hasRoom(c, m, size, most, users, bytes)
          if not m then return call('HLEN', c.M) - users < most and c.bytes - bytes + size <= LIST_BYTES end
          return size <= m.size or c.bytes - bytes - m.size + size <= LIST_BYTES
        end
        -- Members without a connection give way, the longest gone first, if that makes enough room.
        local function makesRoom(c, user, info, size, most)
          local m = member(c, user)
          if m and m.info == info then return true end
          local leaving, own = call('ZCARD', c.G), 0
          if m and call('ZSCORE', c.G, user) then own = m.size end
          if not hasRoom(c, m, size, most, leaving, c.leaving - own) then return false end
          while not hasRoom(c, m, size, most, 0, 0) do
            local first = call('ZRANGE', c.G, 0, 1)
            local gone = first[1] == user and first[2] or first[1]
            if not gone then return false end
            returned(c, gone)
            removed(c, gone)
            tellRemoved(c, gone)
          end
          return true
        end

        """#

    private static let hubs = #"""
        -- The hub has that many more connections in the channel, or fewer.
        local function count(c, hub, more)
          if more == 0 then return end
          c.total = c.total + more
          local own = tonumber(call('HGET', c.C, 'hub:' .. hub) or 0) + more
          if own > 0 then
            call('HSET', c.C, 'hub:' .. hub, own)
            call('SADD', P .. 'hub:' .. hub, c.name)
          else
            call('HDEL', c.C, 'hub:' .. hub)
            call('SREM', P .. 'hub:' .. hub, c.name)
          end
        end
        -- A page of what a dead hub had: the rest follows when it is due.
        local function reapPage(dead)
          local all = P .. 'hub:' .. dead
          local budget = REAPED
          while budget > 0 do
            local name = call('SRANDMEMBER', all)
            if not name then return end
            local app, channel = name:match('^([^:]*):(.*)$')
            local c = open(app, channel)
            if not c then
              call('SREM', all, name)
            else
              local before, own = c.total, tonumber(call('HGET', c.C, 'hub:' .. dead) or 0)
              local U = P .. 'u:' .. dead .. ':' .. name
              local users = call('HRANDFIELD', U, budget, 'WITHVALUES')
              local gone = 0
              for i = 1, #users, 2 do gone = gone + users[i + 1] end
              local isLast = call('HLEN', U) == #users / 2
              if isLast then gone = own end
              count(c, dead, -gone)
              for i = 1, #users, 2 do
                call('HDEL', U, users[i])
                leave(c, users[i], tonumber(users[i + 1]), true)
              end
              if isLast then call('SREM', all, name) end
              if c.total ~= before then countChanged(c) end
              if c.total == 0 and before > 0 then vacated(c) end
              close(c)
              budget = budget - #users / 2 - 1
            end
          end
          call('ZADD', P .. 'due', now, 'x' .. dead)
        end

        """#

    private static let dues = #"""
        local function endDue(entry)
          local kind = entry:sub(1, 1)
          if kind == 'x' then return reapPage(entry:sub(2)) end
          local app, channel, user, at
          app, at = read(entry, 2)
          channel, at = read(entry, at)
          user = entry:sub(at)
          local c = open(app, channel)
          if not c then return end
          if kind == 'l' then
            over(c, user)
          elseif kind == 's' then
            shorterIsOver(c, user)
          elseif kind == 'v' then
            c.vacating = false
            tellVacated(c)
          elseif kind == 'c' then
            c.silence = ''
            if c.owesCount and c.tellsCounts then tellCount(c) end
            c.owesCount = false
          elseif kind == 'm' then
            c.missed = false
          elseif kind == 'k' then
            drop(c)
          end
          close(c)
          return c.told
        end
        local function trim()
          while call('ZCARD', P .. 'due') > DUES do
            local entry = call('ZPOPMIN', P .. 'due')[1]
            endDue(entry)
          end
        end

        """#

    private static let questions = #"""
        local function optional(value) return value and '\1' .. num(value) or '\0' end
        local function facts(c, withEvent)
          local event, left
          if withEvent then event, left = kept(c) end
          return num(c.total) .. optional(c.isPresence and call('HLEN', c.M))
            .. (event and '\1' .. event .. num(left) or '\0')
        end
        -- The answer to a newcomer. Where it asks for the members, they are read behind this, page by page: the answer comes
        -- in two parts, and goes around them.
        local function entered(c, isRepeated, withCount, asksMembers)
          local cached = '\0'
          if c.isCache then
            local event = kept(c)
            if event then
              cached = '\2' .. text(c.channel) .. event .. '\0'
            else
              cached = '\1'
              if not isRepeated then missed(c) end
            end
          end
          local head = reply('\1' .. num(c.sequence) .. optional(withCount and c.total))
          if c.isPresence and asksMembers then return {head, cached} end
          return head .. '\0' .. cached
        end

        """#

    private static let calls = #"""
        local asked = ARGV[6]
        if asked == 'due' then
          local told = 0
          for _ = 1, AT_ONCE do
            local entry = call('ZRANGEBYSCORE', P .. 'due', '-inf', now, 'LIMIT', 0, 1)[1]
            if not entry or told >= TOLD then break end
            call('ZREM', P .. 'due', entry)
            told = told + (endDue(entry) or 0)
          end
          -- With the number of milliseconds until the next, and what backends are to be told: to one hub at a time, until it
          -- says that it has told the last of these, or is silent for too long.
          local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
          local answer = {reply(DONE), first[2] and max(0, tonumber(first[2]) - now) or -1, '', {}}
          local told = ARGV[7]
          if not told then return answer end
          local teller = call('HMGET', P .. 'bucket', 'teller', 'tellsUntil')
          if teller[1] and teller[1] ~= hub and tonumber(teller[2]) > now then return answer end
          if told ~= '' and teller[1] == hub then
            local left = call('XRANGE', P .. 'webhooks', '-', told)
            for _, entry in ipairs(left) do call('XDEL', P .. 'webhooks', entry[1]) end
          end
          local entries = call('XRANGE', P .. 'webhooks', '-', '+', 'COUNT', WEBHOOK_PAGE)
          if #entries == 0 then
            call('HDEL', P .. 'bucket', 'teller', 'tellsUntil')
            return answer
          end
          call('HSET', P .. 'bucket', 'teller', hub, 'tellsUntil', now + TELLING)
          for i, entry in ipairs(entries) do answer[4][i] = entry[2][2] end
          answer[3] = entries[#entries][1]
          return answer
        elseif asked == 'reap' then
          if not call('HGET', P .. 'callers', ARGV[7]) then
            call('HSET', P .. 'callers', ARGV[7], now)
            reapPage(ARGV[7])
          end
          return reply(DONE)
        elseif asked == 'list' then
          local app, prefix, most = ARGV[7], ARGV[8], tonumber(ARGV[9])
          local found, list = 0, ''
          for _, channel in ipairs(call('SMEMBERS', P .. 'apps:' .. app)) do
            if found <= most and channel:sub(1, #prefix) == prefix then
              local c = open(app, channel)
              if c and (c.total > 0 or call('EXISTS', c.M) == 1) then
                found, list = found + 1, list .. text(channel) .. facts(c, false)
              end
            end
          end
          return reply('\5' .. num(found) .. list)
        end
        local app, channel, flags = ARGV[7], ARGV[8], ARGV[9]
        if asked == 'facts' then
          local c = open(app, channel)
          if c then return reply('\3' .. facts(c, true)) end
          return reply('\3\0' .. (flags:find('P') and '\1\0' or '\0') .. '\0')
        elseif asked == 'users' then
          local users = call('HKEYS', P .. 'm:' .. app .. ':' .. channel)
          local parts = {}
          for i, user in ipairs(users) do parts[i] = text(user) end
          return reply('\4' .. num(#users) .. table.concat(parts))
        elseif asked == 'members' then
          local cursor, parts, bytes, M = ARGV[10], {}, 0, P .. 'm:' .. app .. ':' .. channel
          repeat
            local page = call('HSCAN', M, cursor, 'COUNT', 8)
            cursor = page[1]
            for i = 1, #page[2], 2 do
              local part = text(page[2][i]) .. text(page[2][i + 1]:match('^%d+:%d+:%d+:(.*)$'))
              parts[#parts + 1], bytes = part, bytes + #part
            end
          until cursor == '0' or bytes > PAGE
          return {cursor, #parts, table.concat(parts)}
        end
        if not isRepeat then call('HSET', P .. 'callers', caller, number) end
        if asked == 'enter' then
          local isRepeated, asksMembers, user, info = ARGV[10] == '1', ARGV[11] == '1', ARGV[12], ARGV[13]
          local size, most = tonumber(ARGV[14]), tonumber(ARGV[15])
          if isRepeat then
            local refused = call('GET', P .. 'refused:' .. caller .. ':' .. ARGV[3])
            if refused then return reply('\2' .. refused) end
            isRepeated = true
          end
          local c = open(app, channel, flags)
          if isRepeated then
            local m = user and member(c, user)
            if m and m.info ~= info and hasRoom(c, m, size, most, 0, 0) then says(c, user, m, info, size) end
          else
            if user and not makesRoom(c, user, info, size, most) then
              close(c)
              call('SET', P .. 'refused:' .. caller .. ':' .. ARGV[3], '\2', 'PX', 60000)
              return reply('\2\2')
            end
            if c.total == 0 then occupied(c) end
            if user then
              call('HINCRBY', P .. 'u:' .. hub .. ':' .. c.name, user, 1)
              arrived(c, user, info, size, 1)
            end
            count(c, hub, 1)
          end
          local answer = entered(c, isRepeated, c.tellsCounts and isSilent(c), asksMembers)
          if not isRepeated then countChanged(c) end
          close(c)
          return answer
        elseif asked == 'exit' then
          local user, mayReturn = ARGV[10], ARGV[11] == '1'
          local c = open(app, channel)
          if isRepeat or not c or not call('HGET', c.C, 'hub:' .. hub) then return reply(DONE) end
          count(c, hub, -1)
          local U = P .. 'u:' .. hub .. ':' .. c.name
          if user ~= '' and call('HEXISTS', U, user) == 1 then
            if call('HINCRBY', U, user, -1) == 0 then call('HDEL', U, user) end
            leave(c, user, 1, mayReturn)
          end
          countChanged(c)
          if c.total == 0 then vacated(c) end
          close(c)
          trim()
          return reply(DONE)
        elseif asked == 'publish' then
          local c = open(app, channel, flags)
          if not isRepeat then
            local content = ARGV[10]
            local _, ends = read(content, 2)
            _, ends = read(content, ends)
            if KEPT_BYTES > 0 then keep(c, content:sub(2, ends - 1)) end
            tell(c, content)
          end
          local answer = reply('\3' .. facts(c, true))
          close(c)
          return answer
        elseif asked == 'assert' then
          local settledAt = tonumber(call('HGET', P .. 'bucket', 'settledAt') or now + 1)
          local wanted, asksMembers = tonumber(ARGV[10]), ARGV[11] == '1'
          local c = open(app, channel, wanted > 0 and flags or nil)
          if not c then
            local sequence = tonumber(call('HGET', P .. 'bucket', 'sequence') or 0)
            return reply('\1' .. num(sequence) .. '\0\0\0')
          end
          local before, U, had = c.total, P .. 'u:' .. hub .. ':' .. c.name, {}
          if isRepeat then
            -- It may know less than what was carried out behind it: it only asks.
            local answer = entered(c, true, c.tellsCounts, asksMembers)
            close(c)
            if settledAt > now then return redis.error_reply('SETTLING') end
            return answer
          end
          if before == 0 and wanted > 0 then occupied(c) end
          count(c, hub, wanted - tonumber(call('HGET', c.C, 'hub:' .. hub) or 0))
          local users = call('HGETALL', U)
          for i = 1, #users, 2 do had[users[i]] = tonumber(users[i + 1]) end
          for i = 12, #ARGV, 4 do
            local user, info, size, connections = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
            local known = had[user] or 0
            had[user] = nil
            call('HSET', U, user, connections)
            if connections > known then
              arrived(c, user, info, size, connections - known)
            else
              leave(c, user, known - connections, true)
            end
          end
          for user, known in pairs(had) do
            call('HDEL', U, user)
            leave(c, user, known, true)
          end
          if c.total ~= before then countChanged(c) end
          if c.total == 0 and before > 0 then vacated(c) end
          local answer = entered(c, true, c.tellsCounts, asksMembers)
          close(c)
          trim()
          -- Others still say what they hold: who is missing may only not have been said.
          if settledAt > now then return redis.error_reply('SETTLING') end
          return answer
        end
        return reply(UNAVAILABLE)

        """#
}
