-- SPDX-License-Identifier: Apache-2.0

-- The actions of operators. account_id is the zero UUID if the action concerned no account. There is
-- no foreign key, because a record outlives the objects that it names.
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
-- closed_at is in a separate table, because SQLite has no statement that adds a column only if it
-- is missing.
CREATE TABLE IF NOT EXISTS closed_accounts (
  account_id {{.uuid}} PRIMARY KEY REFERENCES accounts (account_id) ON DELETE CASCADE,
  closed_at  {{.ts}} NOT NULL
);
