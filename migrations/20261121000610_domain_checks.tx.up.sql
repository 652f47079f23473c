-- SPDX-License-Identifier: Apache-2.0

-- The verified domains of all accounts by the time of their last DNS read. The index finds the
-- domains to read next, and counts the domains.
CREATE INDEX IF NOT EXISTS domains_checked ON domains (COALESCE(checked_at, created_at), id) WHERE verified AND added;
--bun:split
CREATE INDEX IF NOT EXISTS domains_drifted ON domains ((records->>'Drifted')) WHERE verified AND added AND records->>'Drifted' <> '';
