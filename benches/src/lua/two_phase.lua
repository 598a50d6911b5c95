-- Several sliding limits, all or nothing: check all, then take from all. Each is a counter of the permits in use, and a
-- sorted set of when they were taken. KEYS: the counters. ARGV: limit, window in ms.
local limit, window = tonumber(ARGV[1]), ARGV[2] * 1000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for _, key in ipairs(KEYS) do
    local used = tonumber(redis.call('GET', key) or 0)
    local gone = redis.call('ZREMRANGEBYSCORE', key .. ':log', '-inf', now - window)
    if gone > 0 then
        used = redis.call('DECRBY', key, gone)
    end
    if used >= limit then
        return 0
    end
end
for _, key in ipairs(KEYS) do
    local log = key .. ':log'
    redis.call('INCR', key)
    redis.call('ZADD', log, now, now)
    redis.call('PEXPIRE', key, ARGV[2])
    redis.call('PEXPIRE', log, ARGV[2])
end
return 1
