-- SPDX-License-Identifier: Apache-2.0

-- What an API key may do, and who created it. A key without a row holds every scope and has no
-- bounds. scopes, tenants and networks are lists of words with a space between them. NULL means no
-- bound. Like api_keys, the table is not sharded by account.
CREATE TABLE IF NOT EXISTS api_key_bounds (
  key_id     {{.uuid}} PRIMARY KEY REFERENCES api_keys (id) ON DELETE CASCADE,
  scopes     text NOT NULL,
  tenants    text,
  networks   text,
  expires_at {{.ts}},
  created_by text NOT NULL
);
