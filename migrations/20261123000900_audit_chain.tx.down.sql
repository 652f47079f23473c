-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS audit_acts;
--bun:split
DROP TABLE IF EXISTS audit_entries;
--bun:split
DROP TABLE IF EXISTS audit_chains;
