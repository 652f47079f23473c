-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS integration_observations;
--bun:split
DROP TABLE IF EXISTS mailbox_observations;
--bun:split
DROP TABLE IF EXISTS domain_observations;
--bun:split
DROP TABLE IF EXISTS tenant_observations;
