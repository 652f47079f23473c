-- SPDX-License-Identifier: Apache-2.0
-- Extends the wait KEYS[1] to at least ARGV[1] microseconds from now; with 0 it changes
-- nothing. The key exists as long as the wait lasts.
-- Returns the milliseconds that are left, 0 without a wait.
local left = math.max(redis.call('PTTL', KEYS[1]), 0)
local wanted = math.ceil(tonumber(ARGV[1]) / 1000)
if wanted > left then
  redis.call('SET', KEYS[1], '', 'PX', wanted)
  left = wanted
end
return left
