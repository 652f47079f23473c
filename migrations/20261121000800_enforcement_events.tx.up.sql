-- SPDX-License-Identifier: Apache-2.0

-- Ids are UUIDv7 of created_at, so they sort by time. Events name their tenant by its GUID, because
-- they outlive the tenant's row.
CREATE TABLE IF NOT EXISTS enforcement_events (
  account_id      {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  id              {{.uuid}} NOT NULL,
  tenant_guid     {{.uuid}} NOT NULL,
  mailbox_address text NOT NULL,
  action          text NOT NULL,
  sent_count      integer NOT NULL,
  limit_value     integer NOT NULL,
  created_at      {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id)
);
--bun:split
CREATE INDEX IF NOT EXISTS enforcement_events_action ON enforcement_events (account_id, action, id);
--bun:split
CREATE INDEX IF NOT EXISTS enforcement_events_tenant ON enforcement_events (account_id, tenant_guid, id);
--bun:split
CREATE INDEX IF NOT EXISTS enforcement_events_tenant_action ON enforcement_events (account_id, tenant_guid, action, id);
--bun:split
-- The number of events of each action in each hour (span 3600) and each day (span 86400). starts is
-- the Unix time at which the hour or day begins. There is one count for each tenant, and one with
-- the zero GUID for all tenants. The transaction that inserts events also updates the counts.
CREATE TABLE IF NOT EXISTS enforcement_counts (
  account_id  {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  tenant_guid {{.uuid}} NOT NULL,
  action      text NOT NULL,
  span        integer NOT NULL,
  starts      bigint NOT NULL,
  events      bigint NOT NULL,
  PRIMARY KEY (account_id, tenant_guid, action, span, starts)
);
