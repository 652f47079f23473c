-- SPDX-License-Identifier: Apache-2.0

-- min_release is the oldest schema release that may use this database.
CREATE TABLE IF NOT EXISTS schema_release (
  id          integer PRIMARY KEY CHECK (id = 1),
  min_release integer NOT NULL
);
--bun:split
INSERT INTO schema_release (id, min_release) VALUES (1, 1) ON CONFLICT DO NOTHING;
--bun:split
CREATE TABLE IF NOT EXISTS plans (
  name          text PRIMARY KEY,
  tenant_slots  integer NOT NULL,
  automatic_dns boolean NOT NULL
);
--bun:split
INSERT INTO plans (name, tenant_slots, automatic_dns) VALUES
  ('api_starter',  25,  FALSE),
  ('api_growth',   50,  TRUE),
  ('api_scale',    100, TRUE),
  ('complete',     100, TRUE),
  ('legacy_trial', 5,   FALSE)
ON CONFLICT DO NOTHING;
--bun:split
-- tenant_slots overrides the number of tenant slots of the plan for this account.
CREATE TABLE IF NOT EXISTS accounts (
  account_id   {{.uuid}} PRIMARY KEY,
  email        text NOT NULL,
  plan         text NOT NULL REFERENCES plans (name),
  active       boolean NOT NULL,
  tenant_slots integer,
  created_at   {{.ts}} NOT NULL
);
--bun:split
CREATE TABLE IF NOT EXISTS members (
  account_id {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  email      text NOT NULL,
  created_at {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, email)
);
--bun:split
-- The index is not unique: in a table that is sharded by account, a unique index cannot span
-- accounts. The store checks the address under a lock.
CREATE INDEX IF NOT EXISTS members_email ON members (email);
--bun:split
-- A key is found by its hash before its account is known. So this table is not sharded by account,
-- and has no foreign key to a table that is. The rows of revoked keys are kept, with revoked_at.
CREATE TABLE IF NOT EXISTS api_keys (
  hash       {{.bytes}} PRIMARY KEY,
  id         {{.uuid}} NOT NULL UNIQUE,
  account_id {{.uuid}} NOT NULL,
  form       text NOT NULL,
  hint       text NOT NULL,
  name       text NOT NULL,
  created_at {{.ts}} NOT NULL,
  revoked_at {{.ts}}
);
--bun:split
CREATE INDEX IF NOT EXISTS api_keys_account ON api_keys (account_id);
