-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS closed_accounts;
--bun:split
DROP TABLE IF EXISTS audit_events;
