-- SPDX-License-Identifier: Apache-2.0

-- When each API key was last used, to the minute. It is no column of api_keys,
-- as a column cannot be added twice on SQLite. Like api_keys, it is not spread by
-- account.
CREATE TABLE IF NOT EXISTS api_key_uses (
  key_id       {{.uuid}} PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
  last_used_at {{.ts}} NOT NULL
);
