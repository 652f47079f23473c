-- SPDX-License-Identifier: Apache-2.0

-- The licences for e-mail that the mail platform told of a tenant. A tenant
-- gets its row when they are read for the first time. It is no part of tenants,
-- as a column cannot be added twice on SQLite.
CREATE TABLE IF NOT EXISTS tenant_licenses (
  account_id {{.uuid}} NOT NULL,
  tenant_id  {{.uuid}} NOT NULL,
  paid       integer NOT NULL,
  trial      integer NOT NULL,
  read_at    {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, tenant_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
