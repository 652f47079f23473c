-- SPDX-License-Identifier: Apache-2.0

-- The accounts' connections to DNS providers. credential is encrypted. It includes the provider's
-- settings.
CREATE TABLE IF NOT EXISTS dns_connections (
  account_id    {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  id            {{.uuid}} NOT NULL,
  provider      text NOT NULL,
  name          text NOT NULL,
  credential    {{.bytes}} NOT NULL,
  status        text NOT NULL,
  zones_visible integer NOT NULL,
  tested_at     {{.ts}} NOT NULL,
  created_at    {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id)
);
--bun:split
-- An operator's command names a connection without its account.
CREATE INDEX IF NOT EXISTS dns_connections_id ON dns_connections (id);
--bun:split
-- The values that tenantry wrote into zones. A value need not be UTF-8 and may be too long for an
-- index, so the key contains a hash of it.
CREATE TABLE IF NOT EXISTS dns_writes (
  account_id  {{.uuid}} NOT NULL,
  domain_id   {{.uuid}} NOT NULL,
  purpose     text NOT NULL,
  name        text NOT NULL,
  record_type text NOT NULL,
  value_hash  {{.bytes}} NOT NULL,
  value       {{.bytes}} NOT NULL,
  replaced    {{.bytes}} NOT NULL,
  written_at  {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, domain_id, purpose, name, record_type, value_hash),
  FOREIGN KEY (account_id, domain_id) REFERENCES domains (account_id, id) ON DELETE CASCADE
);
