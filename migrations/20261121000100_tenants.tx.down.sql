-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS mailboxes;
--bun:split
DROP TABLE IF EXISTS domains;
--bun:split
DROP TABLE IF EXISTS withdrawn;
--bun:split
DROP TABLE IF EXISTS tenant_holders;
--bun:split
DROP TABLE IF EXISTS tenants;
