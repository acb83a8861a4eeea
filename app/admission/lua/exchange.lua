-- What gateways tell each other several times a second.
-- KEYS[1]  hash: gateway -> "time message"
-- ARGV     gateway, its message, lifetime (seconds)
-- Returns  the messages of the other gateways that spoke within the lifetime
local time = redis.call('TIME')
local now = tonumber(time[1])
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d ', now) .. ARGV[2])
local messages, told = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #told, 2 do
  local seen, message = string.match(told[i + 1], '^(%d+) (.*)$')
  if tonumber(seen) + tonumber(ARGV[3]) < now then
    redis.call('HDEL', KEYS[1], told[i])
  elseif told[i] ~= ARGV[1] then
    messages[#messages + 1] = message
  end
end
return messages
