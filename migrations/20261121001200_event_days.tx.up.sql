-- SPDX-License-Identifier: Apache-2.0

-- The days of all accounts that have events, for retention. A query must contain the same constants
-- as the index, because it can use a partial index only then.
CREATE INDEX IF NOT EXISTS enforcement_counts_days ON enforcement_counts (starts, account_id)
  WHERE tenant_guid = '00000000-0000-0000-0000-000000000000' AND span = 86400;
