-- SPDX-License-Identifier: Apache-2.0

-- The readiness of each tenant as an event last showed it. At its end, a transaction that changes a
-- tenant, its domains or its mailboxes compares the new readiness with the stored readiness.
CREATE TABLE IF NOT EXISTS tenant_readiness (
  account_id {{.uuid}} NOT NULL,
  tenant_id  {{.uuid}} NOT NULL,
  readiness  {{.json}} NOT NULL,
  PRIMARY KEY (account_id, tenant_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
