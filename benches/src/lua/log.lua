-- Sliding log in a sorted set. KEYS: a sorted set. ARGV: limit, window in ms.
local window = ARGV[2] * 1000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local used = redis.call('ZCARD', KEYS[1])
local limit = tonumber(ARGV[1])
if used >= limit then
    return { 0, 0 }
end
redis.call('ZADD', KEYS[1], now, now)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 1, limit - used - 1 }
