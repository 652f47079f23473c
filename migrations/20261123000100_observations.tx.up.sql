-- SPDX-License-Identifier: Apache-2.0

-- When the parts of a tenant, a domain or a mailbox were observed at the mail platform, as JSON
-- from the part to the time. An observation is stored only if it is not older. The columns are
-- not in tenants, domains and mailboxes, because SQLite cannot add a column twice.
CREATE TABLE IF NOT EXISTS tenant_observations (
  account_id {{.uuid}} NOT NULL,
  id         {{.uuid}} NOT NULL,
  observed   {{.json}} NOT NULL,
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
-- missing_since is when the platform did not show the domain for the first time.
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
-- When the newest list of a sending platform's accounts began whose connections are stored.
CREATE TABLE IF NOT EXISTS integration_observations (
  account_id {{.uuid}} NOT NULL,
  id         {{.uuid}} NOT NULL,
  observed   {{.json}} NOT NULL,
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, id) REFERENCES integrations (account_id, id) ON DELETE CASCADE
);
--bun:split
-- Lists leave out what is missing, which is nearly always nothing.
CREATE INDEX IF NOT EXISTS domains_missing ON domain_observations (account_id, id) WHERE missing_since IS NOT NULL;
--bun:split
CREATE INDEX IF NOT EXISTS mailboxes_missing ON mailbox_observations (account_id, id) WHERE missing_since IS NOT NULL;
