-- SPDX-License-Identifier: Apache-2.0

-- The limit of external recipients in 24 hours that the mail platform publishes for the licences of
-- a tenant, 0 if it publishes none. Until this migration the service computed the limit itself, for
-- Microsoft 365. The migration stores the computed limit for each row of tenant_licenses, so that
-- tenants keep their estimate until the next sync.
CREATE TABLE IF NOT EXISTS recipient_limits (
  account_id {{.uuid}} NOT NULL,
  tenant_id  {{.uuid}} NOT NULL,
  recipients bigint NOT NULL,
  PRIMARY KEY (account_id, tenant_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
INSERT INTO recipient_limits (account_id, tenant_id, recipients)
SELECT account_id, tenant_id, CASE WHEN paid <= 0 THEN 5000 ELSE CAST(ROUND(500 * POWER(paid, 0.7) + 9500) AS bigint) END
FROM tenant_licenses WHERE true ON CONFLICT DO NOTHING;
