-- SPDX-License-Identifier: Apache-2.0

-- The end of each account's log of events. A transaction that writes events raises last_sequence
-- and holds the lock on this row until the commit. Such transactions therefore commit one after
-- another. Events up to dropped_sequence were deleted.
CREATE TABLE IF NOT EXISTS event_logs (
  account_id       {{.uuid}} PRIMARY KEY REFERENCES accounts (account_id) ON DELETE CASCADE,
  last_sequence    bigint NOT NULL,
  dropped_sequence bigint NOT NULL
);
--bun:split
-- version is the number of events of a subject.
CREATE TABLE IF NOT EXISTS event_versions (
  account_id   {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  subject_type text NOT NULL,
  subject_id   text NOT NULL,
  version      bigint NOT NULL,
  PRIMARY KEY (account_id, subject_type, subject_id)
);
--bun:split
-- tenant_guid is the zero UUID if the subject belongs to no tenant. Events outlive the rows of
-- their subjects.
CREATE TABLE IF NOT EXISTS events (
  account_id   {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  sequence     bigint NOT NULL,
  id           {{.uuid}} NOT NULL,
  type         text NOT NULL,
  tenant_guid  {{.uuid}} NOT NULL,
  subject_type text NOT NULL,
  subject_id   text NOT NULL,
  version      bigint NOT NULL,
  data         {{.json}} NOT NULL,
  created_at   {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, sequence)
);
--bun:split
CREATE INDEX IF NOT EXISTS events_type ON events (account_id, type, sequence);
--bun:split
CREATE INDEX IF NOT EXISTS events_tenant ON events (account_id, tenant_guid, sequence);
--bun:split
CREATE INDEX IF NOT EXISTS events_tenant_type ON events (account_id, tenant_guid, type, sequence);
--bun:split
CREATE INDEX IF NOT EXISTS events_created ON events (created_at);
