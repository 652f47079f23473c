-- SPDX-License-Identifier: Apache-2.0
-- Counts a request in the bucket KEYS[1] if fewer than ARGV[1] were accepted in
-- the last ARGV[2] microseconds. The bucket is the list of the times at which
-- requests were accepted, the oldest first.
-- Returns: allowed (1 or 0), remaining, microseconds until the oldest request leaves
-- the window, microseconds until a refused request would be allowed, and the time at
-- which the request was counted.
local bucket, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- After a change of the server the clock may be earlier than the times in the list. If it
-- is earlier by more than a window, the list would block for long, so it is deleted.
local newest = tonumber(redis.call('LINDEX', bucket, -1))
if newest and newest > now + window then
  redis.call('DEL', bucket)
  newest = nil
end

local oldest = tonumber(redis.call('LINDEX', bucket, 0))
while oldest and now - oldest >= window do
  redis.call('LPOP', bucket)
  oldest = tonumber(redis.call('LINDEX', bucket, 0))
end

local counting = redis.call('LLEN', bucket)
if counting >= limit then
  local leaves = tonumber(redis.call('LINDEX', bucket, counting - limit))
  return {0, 0, oldest + window - now, leaves + window - now, ''}
end

-- Each request gets a different time, by which it can be given back.
local at = now
if newest and newest >= at then at = newest + 1 end
local text = string.format('%.0f', at)
redis.call('RPUSH', bucket, text)
redis.call('PEXPIRE', bucket, math.ceil((at - now + window) / 1000))
return {1, limit - counting - 1, (oldest or at) + window - now, 0, text}
