/// What every script begins with.
///
/// `KEYS[1]` is the bucket's prefix, which all keys begin with: they lie in one slot by its hash tag. `ARGV`: the hub, its
/// caller (the hub and the loop), the call's number (0 where the script does not mind), the time or nothing, the number of
/// the caller's call before or nothing, then what the script itself takes.
///
/// | key behind the prefix | what |
/// |---|---|
/// | `bucket` | hash: `sequence` of the last change, `users` told, `webhooks` told, bytes and channels by app, what |
/// | | beats have found |
/// | `hubs` | hash: when each hub has last said that it lives |
/// | `about` | hash, of the first bucket: what operators are told of each hub |
/// | `dead` | hash, for a minute: how long hubs were silent that were taken for dead |
/// | `uses` | hash, of the first bucket: what each hub has of limited apps |
/// | `beat` | shard channel: what has changed in the last second |
/// | `callers` | hash: the last number of each caller; of a reaped hub, when; until when the bucket settles |
/// | `changed` | hash: channels that have changed since the last beat, each with its sequence |
/// | `due` | sorted set by time: graces, pauses and silences that end |
/// | `webhooks` | stream: what backends are to be told, numbered without a gap |
/// | `foreign` | hash: for each hub, an event of them whose app it does not serve |
/// | `apps:APP` | set: the app's channels |
/// | `hub:HUB` | set: the channels that the hub has connections in |
/// | `c:APP:CHANNEL` | hash: the channel; also the shard channel that hubs hear of its changes |
/// | `m:APP:CHANNEL` | hash: members by user |
/// | `g:APP:CHANNEL` | sorted set: members in their grace, by its beginning |
/// | `r:APP:CHANNEL` | hash: users removed a moment ago; 1: the backend was told |
/// | `u:HUB:APP:CHANNEL` | hash: the hub's connections by user |
/// | `e:APP:CHANNEL` | the last event of a cache channel |
/// | `kept` | hash: bytes of those events by app |
/// | `kept:APP` | sorted set: the app's channels with such an event, by its end |
/// | `i:APP:TIME` | set, for a quarter of an hour: ids of events published under an `Idempotency-Key`, told here |
/// | `k:APP:KEY` | hash: the publish that came under that `Idempotency-Key` |
/// | `keys:APP` | sorted set by their end: those of the app |
/// | `costs:APP` | hash: what each of them costs |
/// | `costs`, `cost` | sorted set: what those of each app cost; and what all do |
/// | `seen:APP:MINUTE` | set: marks of the app's calls that were signed in that minute |
/// | `refused:CALLER:NUMBER` | for a minute: why that call was refused, if it is repeated |
/// | `o:APP:USER` | hash: of each hub, whether it has connections of the user (`p`), watchers (`w`), or both; |
/// | | `leave` while the last leave's time runs: `grace` (online) or `gone`; |
/// | | `settled`: until then a leave by request gets a grace |
/// | `userDue` | sorted set by time: users whose leaves end |
/// | `users:HUB` | sorted set by place: users of whom the hub has connections or watchers |
/// | `lost:HUB` | sorted set by place: those of whom it has no more, which is not done yet |
/// | `lost` | set: hubs with such users |
/// | `commands` | shard channel: what one hub tells all others, behind the time, its number, a serial and an age |
/// | `told` | stream: the commands of ten minutes, for hubs that could not hear them |
/// | `part` | sorted set: for a moment, users of `lost:HUB` |
/// | `to:HUB` | no key: the shard channel by which the hub is told of users |
///
/// Numbers and texts are written as `SharedWriter` writes them: what a script tells goes to hubs as it is.
enum ScriptPrelude {
    /// The statements by which backends are to be told, of at most 100,000 events that wait. Numbered: a gap in the ids
    /// shows that some were cut.
    ///
    /// - Parameters: the expressions of the app and of the encoded event.
    static func webhook(app: String, _ event: String) -> String {
        #"""
        local id = call('HINCRBY', P .. 'bucket', 'webhooks', 1)
        call('XADD', P .. 'webhooks', 'MAXLEN', '~', 100000, id .. '-0', 'e', '\1\1\2' .. text(\#(app)) .. \#(event))
        """#
    }

    /// - Parameter time: the expression of the time, in milliseconds.
    static func text(time: String) -> String {
        #"""
        local P, hub, caller, number = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
        local call, floor, char, max, min = redis.call, math.floor, string.char, math.max, math.min
        local now = \#(time)
        local function num(n)
          local bytes = ''
          while n >= 128 do
            bytes = bytes .. char(n % 128 + 128)
            n = floor(n / 128)
          end
          return bytes .. char(n)
        end
        local function text(t) return num(#t) .. t end
        local function reply(body) return '\1\1\3' .. num(number) .. body end
        local DONE, UNAVAILABLE = '\6', '\7'
        -- Of a hub that was reaped, nothing is taken any more.
        local callers = call('HMGET', P .. 'callers', hub, caller, 'settledAt')
        if callers[1] then return redis.error_reply('FENCED the hub was reaped') end
        local function fence(dead)
          call('HSETNX', P .. 'callers', dead, now)
          call('HDEL', P .. 'hubs', dead)
          call('HDEL', P .. 'about', dead)
          call('HDEL', P .. 'uses', dead)
          if call('HGET', P .. 'bucket', 'teller') == dead then call('HDEL', P .. 'bucket', 'teller', 'tellsUntil') end
        end
        -- A caller numbers its calls, and repeats them in order: up to the last one they were carried out.
        local isRepeat = callers[2] and tonumber(callers[2]) >= number
        -- One before it was not carried out, or what it did is lost.
        if ARGV[5] ~= '' and not isRepeat and tonumber(callers[2] or -1) < tonumber(ARGV[5]) then
          return redis.error_reply('ORDER broken')
        end
        -- Whether an event of that id was told here in the last ten minutes: a backend repeats it, not a caller. And whether
        -- no more can be remembered.
        local function isKnown(app, once)
          if once == '0' then return false end
          local slot = floor(now / 300000)
          for back = 0, 2 do
            if call('SISMEMBER', P .. 'i:' .. app .. ':' .. slot - back, once) == 1 then return true end
          end
          local key = P .. 'i:' .. app .. ':' .. slot
          if call('SCARD', key) >= 16384 then return false, true end
          call('SADD', key, once)
          call('PEXPIRE', key, 900000)
          return false
        end
        -- Others still say what they hold: who is missing may only not have been said.
        local function settles() return tonumber(callers[3] or now + 1) > now end
        local SETTLES = 'SETTLING hubs say what they hold'

        """#
    }

    /// The time as Redis knows it: hubs' clocks differ.
    static let serverTime = "(function(t) return t[1] * 1000 + floor(t[2] / 1000) end)(call('TIME'))"
    /// The time that the caller says: in tests, time is an input.
    static let givenTime = "tonumber(ARGV[4])"
}
