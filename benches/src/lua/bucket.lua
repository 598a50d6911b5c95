-- Token bucket in a hash, by the server's clock or by the caller's.
-- KEYS: a hash. ARGV: capacity, tokens a second[, the caller's clock in seconds].
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = tonumber(ARGV[3])
if not now then
    local time = redis.call('TIME')
    now = time[1] + time[2] / 1000000
end
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = capacity
if bucket[1] then
    tokens = math.min(capacity, bucket[1] + math.max(0, now - bucket[2]) * rate)
end
if tokens < 1 then
    return { 0, math.floor(tokens) }
end
tokens = tokens - 1
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate * 1000))
return { 1, math.floor(tokens) }
