/// What is asked of channels, and the answers.
enum ChannelCallScript {
    static let text = #"""
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
          -- is silent for too long. It names the last that it has got, up to where all were told, the epoch of both, and
          -- an event if it does not serve its app: while that is the first, another hub may tell it. If all say so, it is
          -- dropped, with what follows of the same app: the answer has it, and its fifth part is 2.
          local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
          local answer = {reply(DONE), first[2] and max(0, tonumber(first[2]) - now) or -1, '', {}, 0, ''}
          local got, told, of = ARGV[7], ARGV[8], ARGV[9]
          if not got then return answer end
          local B, W, F = P .. 'bucket', P .. 'webhooks', P .. 'foreign'
          local known = call('HMGET', B, 'teller', 'tellsUntil', 'epoch')
          local epoch = known[3] or ''
          if known[1] and known[1] ~= hub and tonumber(known[2]) > now then return answer end
          local isNew = known[1] ~= hub or epoch ~= of
          local function forget(id) call('XTRIM', W, 'MINID', string.format('%d-0', tonumber(id:match('^%d+')) + 1)) end
          if not isNew and told ~= '' then forget(told) end
          if call('XLEN', W) == 0 then
            call('HDEL', B, 'teller', 'tellsUntil')
            return answer
          end
          local foreign = ARGV[10]
          if foreign ~= '' and epoch == of and call('XRANGE', W, '-', '+', 'COUNT', 1)[1][1] == foreign then
            call('HSET', F, hub, foreign)
            call('PEXPIRE', F, 60000)
            call('HDEL', B, 'teller', 'tellsUntil')
            for _, other in ipairs(call('HKEYS', P .. 'hubs')) do
              if call('HGET', F, other) ~= foreign then return answer end
            end
            local run, dropped = call('XRANGE', W, '-', '+', 'COUNT', WEBHOOK_PAGE), nil
            for i, entry in ipairs(run) do
              local app = read(entry[2][2], 4)
              if app ~= (dropped or app) then break end
              dropped, answer[4][i], answer[3] = app, entry[2][2], entry[1]
            end
            forget(answer[3])
            answer[5] = 2
            return answer
          end
          call('HSET', B, 'teller', hub, 'tellsUntil', now + TELLING)
          local entries = call('XRANGE', W, (isNew or got == '') and '-' or '(' .. got, '+', 'COUNT', WEBHOOK_PAGE)
          for i, entry in ipairs(entries) do answer[4][i] = entry[2][2] end
          if #entries > 0 then answer[3] = entries[#entries][1] end
          answer[5], answer[6] = isNew and 1 or 0, epoch
          return answer
        elseif asked == 'reap' then
          fence(ARGV[7])
          loseAll(ARGV[7])
          reapPage(ARGV[7])
          return reply(DONE)
        elseif asked == 'counted' then
          local page, news = call('SSCAN', P .. 'hub:' .. hub, ARGV[7], 'COUNT', 256), {}
          for i, name in ipairs(page[2]) do
            local app, channel = name:match('^([^:]*):(.*)$')
            news[i] = '\1\1\4' .. text(app) .. text(channel) .. '\0'
          end
          return {page[1], news}
        elseif asked == 'list' then
          local app, prefix, most = ARGV[7], ARGV[8], tonumber(ARGV[9])
          local parts = {}
          for _, channel in ipairs(call('SMEMBERS', P .. 'apps:' .. app)) do
            if #parts > most then break end
            if channel:sub(1, #prefix) == prefix then
              local c = open(app, channel)
              if c and (c.total > 0 or call('EXISTS', c.M) == 1) then
                parts[#parts + 1] = text(channel) .. facts(c, false)
              end
            end
          end
          return reply('\5' .. num(#parts) .. table.concat(parts))
        end
        local app, channel, flags = ARGV[7], ARGV[8], ARGV[9]
        -- The app has as many channels as it may have.
        local isFull = false
        if flags:find('F') then
          flags = flags:gsub('F', '')
          isFull = call('EXISTS', P .. 'c:' .. app .. ':' .. channel) == 0
        end
        local function nothing() return reply('\3\0' .. (flags:find('P') and '\1\0' or '\0') .. '\0') end
        if asked == 'facts' then
          local c = open(app, channel)
          if c then return reply('\3' .. facts(c, true)) end
          return nothing()
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
          if isFull and not isRepeat then
            call('SET', P .. 'refused:' .. caller .. ':' .. ARGV[3], '\1', 'PX', 60000)
            return reply('\2\1')
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
          if settles() then return redis.error_reply(SETTLES) end
          -- Where nobody is in it, and there is no room for it, it keeps no event.
          if isFull then return nothing() end
          local c = open(app, channel, flags)
          local isTold, isTooMany = isRepeat, false
          if not isRepeat then isTold, isTooMany = isKnown(app, ARGV[11]) end
          if isTooMany then
            close(c)
            return reply(UNAVAILABLE)
          end
          if not isTold then
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
            if settles() then return redis.error_reply(SETTLES) end
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
            -- What it says of one who was there may be older than what another hub has said.
            if connections ~= known then
              call('HSET', U, user, connections)
              if connections > known then
                arrived(c, user, info, size, connections - known)
              else
                leave(c, user, known - connections, true)
              end
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
          if settles() then return redis.error_reply(SETTLES) end
          return answer
        end
        return reply(UNAVAILABLE)

        """#
}
