-- SPDX-License-Identifier: Apache-2.0
-- Acquires or renews a concurrency slot in KEYS[1] for the holder ARGV[1], unless
-- other holders have all ARGV[2] slots. The lease expires ARGV[3] microseconds after
-- the last call. KEYS[1] is a sorted set of the holders, scored by the end of the lease.
-- Returns 1 when the holder has a slot, else 0.
local name, holder, slots, lease = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
redis.call('ZREMRANGEBYSCORE', name, '-inf', string.format('%.0f', now))
if not redis.call('ZSCORE', name, holder) and redis.call('ZCARD', name) >= slots then
  return 0
end
redis.call('ZADD', name, string.format('%.0f', now + lease), holder)
redis.call('PEXPIRE', name, math.ceil(lease / 1000))
return 1
