-- SPDX-License-Identifier: Apache-2.0

-- The replaced secrets of API keys that still work for a while. api_keys has the hash of the
-- current secret. A release that does not know this table refuses the replaced secrets.
CREATE TABLE IF NOT EXISTS api_key_old_secrets (
  hash        {{.bytes}} PRIMARY KEY,
  key_id      {{.uuid}} NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  valid_until {{.ts}} NOT NULL
);
--bun:split
CREATE INDEX IF NOT EXISTS api_key_old_secrets_key ON api_key_old_secrets (key_id);
