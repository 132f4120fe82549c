import Clock
import HubEngine

/// All that concerns who is in a channel, and what is kept of it: `MemoryChannels` is its model.
///
/// `ARGV`, from the sixth: what is asked, then its arguments. A channel comes as app, name and letters: `P` presence, `K`
/// cache, `N` counts are told, and what the app's backend is told: `o` occupied and vacated, `p` members, `c` cache misses,
/// `s` counts. `F`: the app has as many channels as it may have.
enum ChannelScript {
    /// With the bounds and times of one bucket.
    static func text(_ limits: ShardLimits, lease: Duration) -> String {
        constants(limits, lease) + channels + counts + MemberScript.text + UserScript.loss + hubs + dues + questions
            + ChannelCallScript.text
    }

    private static func constants(_ limits: ShardLimits, _ lease: Duration) -> String {
        func milliseconds(_ duration: Duration) -> UInt64 { duration.wholeNanoseconds / 1_000_000 }
        return """
            local GRACE, PAUSE = \(milliseconds(limits.leaveGrace)), \(milliseconds(limits.webhookPause))
            local FEW, PROMPT, SELDOM = \(limits.promptCountsMax), \(milliseconds(limits.promptInterval)), \
            \(milliseconds(limits.countInterval))
            local MISS, KEPT, KEPT_BYTES = \(milliseconds(limits.missInterval)), \(milliseconds(limits.cacheTime)), \
            \(limits.cacheBytesMax)
            local LIST_BYTES, DUES, AT_ONCE, TOLD = \(limits.membersBytesMax), \(limits.departuresMax), \
            \(limits.dueAtOnceMax), \(limits.toldAtOnceMax)
            local WEBHOOK_PAGE, TELLING, PAGE, REAPED = 128, \(milliseconds(lease)), 32768, 256

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
        local function webhook(c, content)
          \#(ScriptPrelude.webhook(app: "c.app", "content"))
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

    private static let hubs = #"""
        -- The hub has that many more connections in the channel, or fewer.
        local function count(c, hub, more)
          if more == 0 then return end
          c.total = c.total + more
          local own = tonumber(call('HGET', c.C, 'hub:' .. hub) or 0) + more
          if own > 0 then
            call('HSET', c.C, 'hub:' .. hub, own)
            -- One that has not beaten yet is found when it dies, too.
            if call('SADD', P .. 'hub:' .. hub, c.name) == 1 then call('HSETNX', P .. 'hubs', hub, now) end
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
          -- Not in this call.
          call('ZADD', P .. 'due', now + 1, 'x' .. dead)
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
          for _ = 1, 64 do
            if call('ZCARD', P .. 'due') <= DUES then return end
            endDue(call('ZPOPMIN', P .. 'due')[1])
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
}
