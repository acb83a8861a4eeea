-- A token bucket that gateways share: holds up to a minute's worth, and gains that in a minute.
-- KEYS[1]  hash: `level`, and `at`, the time in seconds at which it was that
-- ARGV     limit (tokens), need, want (>= need; equal to it and negative: give back)
-- Returns  {granted, level}, as text: granted is within need .. want, or nothing was taken and it is ""
local limit, need, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local held = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(held[1]) or limit, tonumber(held[2]) or now
level = math.min(limit, level + math.max(0, now - at) * limit / 60)
local granted = ''
if need <= level then
  granted = math.max(need, math.min(want, math.floor(level)))
  level = math.min(limit, level - granted)
end
redis.call('HSET', KEYS[1], 'level', tostring(level), 'at', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], 180)
return {tostring(granted), tostring(level)}
