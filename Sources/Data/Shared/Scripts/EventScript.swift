/// An event for those in a channel: a backend's to a channel that keeps none, or a client's. The shortest way, for this is
/// called most often.
///
/// `ARGV`, from the sixth: app, channel, the change's content as hubs read it, what is replied: `facts`, `members`
/// (facts with the number of users), or nothing; the event's id, 0 without one; and what backends are told of it, if they
/// are.
enum EventScript {
    static let text = #"""
        local app, channel, content, asked = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
        -- A refused event has its place in the caller's order, too.
        if not isRepeat then call('HSET', P .. 'callers', caller, number) end
        if settles() then return redis.error_reply(SETTLES) end
        local name = app .. ':' .. channel
        local C = P .. 'c:' .. name
        local known = call('HMGET', C, 'sequence', 'total')
        local total = tonumber(known[2] or 0)
        if not isRepeat then
          -- Where nobody is, nothing is to be told once.
          local isTold, isFull = false, false
          if total > 0 then isTold, isFull = isKnown(app, ARGV[10]) end
          if isFull then return reply(UNAVAILABLE) end
          if total > 0 and not isTold then
            local sequence = call('HINCRBY', P .. 'bucket', 'sequence', 1)
            call('HSET', C, 'sequence', sequence)
            call('HSET', P .. 'changed', name, sequence)
            call('SPUBLISH', C, '\1\1\1' .. text(app) .. text(channel) .. num(tonumber(known[1])) .. num(sequence) .. content)
            if ARGV[11] then
              \#(ScriptPrelude.webhook(app: "app", "ARGV[11]"))
            end
          end
        end
        if asked == '' then return reply(DONE) end
        local users = asked == 'members' and '\1' .. num(call('HLEN', P .. 'm:' .. name)) or '\0'
        return reply('\3' .. num(total) .. users .. '\0')

        """#
}
