-- SPDX-License-Identifier: Apache-2.0

DROP INDEX IF EXISTS domains_drifted;
--bun:split
DROP INDEX IF EXISTS domains_checked;
