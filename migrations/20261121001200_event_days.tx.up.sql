-- SPDX-License-Identifier: Apache-2.0

-- The days of all accounts that have events, which retention asks for. Conditions
-- name the same constants, as an index of some rows serves no others.
CREATE INDEX IF NOT EXISTS enforcement_counts_days ON enforcement_counts (starts, account_id)
  WHERE tenant_guid = '00000000-0000-0000-0000-000000000000' AND span = 86400;
