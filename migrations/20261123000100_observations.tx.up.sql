-- SPDX-License-Identifier: Apache-2.0

-- When the parts of a tenant, a domain, a mailbox or an integration were observed. The JSON maps a
-- part to the time. An observation is stored only if it is not older than the stored one. The
-- columns are not in the tables of these objects, because SQLite has no statement that adds a
-- column only if it is missing.
CREATE TABLE IF NOT EXISTS tenant_observations (
  account_id {{.uuid}} NOT NULL,
  id         {{.uuid}} NOT NULL,
  observed   {{.json}} NOT NULL,
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
-- missing_since is the time of the first read of the platform that did not find the domain.
CREATE TABLE IF NOT EXISTS domain_observations (
  account_id    {{.uuid}} NOT NULL,
  id            {{.uuid}} NOT NULL,
  observed      {{.json}} NOT NULL,
  missing_since {{.ts}},
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, id) REFERENCES domains (account_id, id) ON DELETE CASCADE
);
--bun:split
CREATE TABLE IF NOT EXISTS mailbox_observations (
  account_id    {{.uuid}} NOT NULL,
  id            {{.uuid}} NOT NULL,
  observed      {{.json}} NOT NULL,
  missing_since {{.ts}},
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
--bun:split
-- The part listing is when the refresh began whose connections are stored in mailbox_connections.
CREATE TABLE IF NOT EXISTS integration_observations (
  account_id {{.uuid}} NOT NULL,
  id         {{.uuid}} NOT NULL,
  observed   {{.json}} NOT NULL,
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, id) REFERENCES integrations (account_id, id) ON DELETE CASCADE
);
--bun:split
-- Lists leave out missing objects, which are few.
CREATE INDEX IF NOT EXISTS domains_missing ON domain_observations (account_id, id) WHERE missing_since IS NOT NULL;
--bun:split
CREATE INDEX IF NOT EXISTS mailboxes_missing ON mailbox_observations (account_id, id) WHERE missing_since IS NOT NULL;
