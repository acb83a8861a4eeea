-- How many requests of a tenant are under way, over all gateways.
-- KEYS[1]  hash: gateway -> "count time" (seconds)
-- ARGV     gateway, its count with the new request in it, limit (0: only write), lifetime (seconds)
-- Returns  what the other live gateways have; the count is written unless the limit is passed
local time = redis.call('TIME')
local now = tonumber(time[1])
local others, held = 0, redis.call('HGETALL', KEYS[1])
for i = 1, #held, 2 do
  local count, seen = string.match(held[i + 1], '^(%d+) (%d+)$')
  if tonumber(seen) + tonumber(ARGV[4]) < now then
    redis.call('HDEL', KEYS[1], held[i])
  elseif held[i] ~= ARGV[1] then
    others = others + tonumber(count)
  end
end
local own, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
if limit == 0 or others + own <= limit then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. string.format('%d', now))
  redis.call('EXPIRE', KEYS[1], ARGV[4] * 2)
end
return others
