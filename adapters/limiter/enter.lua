-- SPDX-License-Identifier: Apache-2.0
-- Takes a place in KEYS[1] for ARGV[1], or keeps it, unless others have all of
-- the ARGV[2] places. It is free again ARGV[3] microseconds after the last such
-- call. The places are a sorted set of who has them by when that ends.
local name, who, places, lease = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
redis.call('ZREMRANGEBYSCORE', name, '-inf', string.format('%.0f', now))
if not redis.call('ZSCORE', name, who) and redis.call('ZCARD', name) >= places then
  return 0
end
redis.call('ZADD', name, string.format('%.0f', now + lease), who)
redis.call('PEXPIRE', name, math.ceil(lease / 1000))
return 1
