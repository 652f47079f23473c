-- SPDX-License-Identifier: Apache-2.0

-- What operators did. account_id is the zero UUID where the act was on no
-- account. No foreign key: a record outlives all that it speaks of.
CREATE TABLE IF NOT EXISTS audit_events (
  account_id {{.uuid}} NOT NULL,
  id         {{.uuid}} NOT NULL,
  action     text NOT NULL,
  operator   text NOT NULL,
  details    {{.json}} NOT NULL,
  created_at {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id)
);
--bun:split
CREATE INDEX IF NOT EXISTS audit_events_created ON audit_events (created_at);
--bun:split
-- A table of its own, as SQLite cannot add a column harmlessly twice.
CREATE TABLE IF NOT EXISTS closed_accounts (
  account_id {{.uuid}} PRIMARY KEY REFERENCES accounts (account_id) ON DELETE CASCADE,
  closed_at  {{.ts}} NOT NULL
);
