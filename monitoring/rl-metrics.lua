-- What `INFO rl` and `RL.TOP` tell, for `prometheus-redis-exporter -script`.
--
-- The exporter runs this on each scrape and shows each pair of the answer as one gauge,
-- redis_script_values{key="..."}. The keys are `metric`, or `metric|label|value` and so on, and the
-- relabelling in prometheus.yml makes metrics with labels of them. Label values are printable
-- ASCII: other bytes of a key, and the backslash, are written as \xNN, since one value that is not
-- UTF-8 would cost the scrape.
local TOP = 10

local out = {}

local function put(key, value)
    out[#out + 1] = key
    out[#out + 1] = tostring(value)
end

local function printable(bytes)
    return (bytes:gsub('[%c\127-\255\\]', function(byte)
        return string.format('\\x%02x', byte:byte())
    end))
end

-- "granted=1,denied=2,shadow_denied=3"
local function put_outcomes(prefix, label, outcomes)
    for outcome, value in outcomes:gmatch('([%w_]+)=(%d+)') do
        put(prefix .. outcome .. '_total' .. label, value)
    end
end

local TOTALS = {
    granted = true, denied = true, shadow_denied = true, errors = true, policies_mismatched = true,
    waits_granted = true, waits_timed_out = true, waits_denied = true,
}
local GAUGES = { limiters = true, policies = true, top_tracked = true, waiters = true }

for line in redis.call('INFO', 'rl'):gmatch('[^\r\n]+') do
    local field, value = line:match('^rl_([^:]+):(.*)$')
    if not field then
        -- The head of the section.
    elseif TOTALS[field] then
        put('rl_' .. field .. '_total', value)
    elseif GAUGES[field] then
        put('rl_' .. field, value)
    elseif field == 'policies_digest' then
        -- A gauge holds 53 bits, so 13 of the 16 digits.
        put('rl_policies_digest', string.format('%.0f', tonumber(value:sub(-13), 16)))
    elseif field == 'config_enforce' then
        put('rl_enforced', value == 'yes' and 1 or 0)
    elseif field == 'other_names' then
        put_outcomes('rl_name_', '|name|(others)', value)
    else
        local label, of = field:match('^(%l+)_(.+)$')
        if label == 'algo' or label == 'name' then
            put_outcomes('rl_' .. label .. '_', '|' .. label .. '|' .. of, value)
        end
    end
end

for _, denied in ipairs(redis.call('RL.TOP', 'COUNT', TOP)) do
    local key, db, count, err = unpack(denied)
    local label = '|db|' .. db .. '|key|' .. printable(key)
    put('rl_top_denied' .. label, count)
    put('rl_top_error' .. label, err)
end

return out
