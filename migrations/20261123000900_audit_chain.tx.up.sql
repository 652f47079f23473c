-- SPDX-License-Identifier: Apache-2.0

-- The end of each account's chain of audit entries. A transaction that writes entries raises
-- last_sequence and holds the lock on this row until the commit. Such transactions therefore commit
-- one after another. Entries up to dropped_sequence were deleted. There is no foreign key, because
-- the audit outlives the account.
CREATE TABLE IF NOT EXISTS audit_chains (
  account_id       {{.uuid}} PRIMARY KEY,
  last_sequence    bigint NOT NULL,
  last_hash        text NOT NULL,
  dropped_sequence bigint NOT NULL
);
--bun:split
-- tenant_guid is the zero UUID if the entry concerns no tenant. status is 0 if the outcome is
-- unknown, and 200 for actions that are not requests. Texts without a value are empty.
CREATE TABLE IF NOT EXISTS audit_entries (
  account_id    {{.uuid}} NOT NULL,
  sequence      bigint NOT NULL,
  id            {{.uuid}} NOT NULL,
  actor_type    text NOT NULL,
  actor_id      text NOT NULL,
  actor_name    text NOT NULL,
  action        text NOT NULL,
  tenant_guid   {{.uuid}} NOT NULL,
  subject_type  text NOT NULL,
  subject_id    text NOT NULL,
  status        bigint NOT NULL,
  code          text NOT NULL,
  request_id    text NOT NULL,
  client_ip     text NOT NULL,
  previous_hash text NOT NULL,
  hash          text NOT NULL,
  created_at    {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, sequence)
);
--bun:split
CREATE INDEX IF NOT EXISTS audit_entries_tenant ON audit_entries (account_id, tenant_guid, sequence);
--bun:split
-- The acts of requests that changed something and have no outcome yet. write_key identifies a write
-- over all its attempts. started_at is in microseconds of the database's clock.
CREATE TABLE IF NOT EXISTS audit_acts (
  account_id {{.uuid}} NOT NULL,
  write_key  {{.bytes}} NOT NULL,
  id         {{.uuid}} NOT NULL,
  entry      {{.json}} NOT NULL,
  started_at bigint NOT NULL,
  PRIMARY KEY (account_id, write_key)
);
--bun:split
CREATE INDEX IF NOT EXISTS audit_acts_started ON audit_acts (started_at);
