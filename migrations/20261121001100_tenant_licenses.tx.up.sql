-- SPDX-License-Identifier: Apache-2.0

-- The e-mail licences of a tenant, as the mail platform last reported them. The columns are not in
-- tenants, because SQLite has no statement that adds a column only if it is missing.
CREATE TABLE IF NOT EXISTS tenant_licenses (
  account_id {{.uuid}} NOT NULL,
  tenant_id  {{.uuid}} NOT NULL,
  paid       integer NOT NULL,
  trial      integer NOT NULL,
  read_at    {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, tenant_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
