-- SPDX-License-Identifier: Apache-2.0

-- When each API key was last used, to the minute. It is not a column of api_keys, because SQLite
-- has no statement that adds a column only if it is missing. Like api_keys, the table is not
-- sharded by account.
CREATE TABLE IF NOT EXISTS api_key_uses (
  key_id       {{.uuid}} PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
  last_used_at {{.ts}} NOT NULL
);
