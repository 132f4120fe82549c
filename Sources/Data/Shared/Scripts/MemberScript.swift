/// The members of presence channels, and who has left a moment ago.
enum MemberScript {
    static let text = #"""
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
          local m = count > 0 and member(c, user)
          if not m then return end
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
}
