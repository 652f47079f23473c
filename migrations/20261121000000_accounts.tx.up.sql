-- SPDX-License-Identifier: Apache-2.0

-- The oldest release that may still open this database.
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
-- tenant_slots overrides the plan's for this one account.
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
-- Not unique: a table that is spread by account cannot promise that across
-- accounts. The store does, under a lock.
CREATE INDEX IF NOT EXISTS members_email ON members (email);
--bun:split
-- Found by hash before the account is known, so this table is not spread by
-- account and no foreign key leads from it to one that is. Rotated keys stay,
-- dead.
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
