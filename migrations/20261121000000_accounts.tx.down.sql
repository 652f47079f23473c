-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS api_keys;
--bun:split
DROP TABLE IF EXISTS members;
--bun:split
DROP TABLE IF EXISTS accounts;
--bun:split
DROP TABLE IF EXISTS plans;
--bun:split
DROP TABLE IF EXISTS schema_release;
