-- SPDX-License-Identifier: Apache-2.0
-- Returns how many requests the bucket KEYS[1] still allows, if it allows ARGV[1] in
-- ARGV[2] microseconds. It changes nothing. take.lua describes the bucket.
local bucket, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local counting = 0
for _, at in ipairs(redis.call('LRANGE', bucket, 0, -1)) do
  local age = now - tonumber(at)
  if age < window and age >= -window then counting = counting + 1 end
end
return math.max(0, limit - counting)
