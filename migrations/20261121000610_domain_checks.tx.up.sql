-- SPDX-License-Identifier: Apache-2.0

-- Verified domains of all accounts by their last read: the next ones to read,
-- and how many there are.
CREATE INDEX IF NOT EXISTS domains_checked ON domains (COALESCE(checked_at, created_at), id) WHERE verified AND added;
--bun:split
CREATE INDEX IF NOT EXISTS domains_drifted ON domains ((records->>'Drifted')) WHERE verified AND added AND records->>'Drifted' <> '';
