-- SPDX-License-Identifier: Apache-2.0

-- The latest removal of each domain by its account. forgotten_at is when the removal at the
-- platform began, and later when the domain's row in domains was deleted. Discoveries ignore a
-- domain that has a row here but no row in domains. The row is deleted when the removal is
-- cancelled, and when the domain is reserved again.
CREATE TABLE IF NOT EXISTS forgotten_domains (
  account_id   {{.uuid}} NOT NULL,
  tenant_id    {{.uuid}} NOT NULL,
  name         text NOT NULL,
  forgotten_at {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, tenant_id, name),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
-- Mailboxes that were removed at the platform a short time ago, by the platform's id. The lists of
-- lagging replicas can still contain them.
CREATE TABLE IF NOT EXISTS removed_mailboxes (
  account_id {{.uuid}} NOT NULL,
  tenant_id  {{.uuid}} NOT NULL,
  object_id  text NOT NULL,
  removed_at {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, tenant_id, object_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
