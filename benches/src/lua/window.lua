-- Fixed window: INCR and EXPIRE. KEYS: a counter. ARGV: limit, window in ms.
local count = redis.call('INCR', KEYS[1])
if count == 1 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if count > tonumber(ARGV[1]) then
    return 0
end
return 1
