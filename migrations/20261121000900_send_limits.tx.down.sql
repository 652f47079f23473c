-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS mailbox_blocks;
--bun:split
DROP TABLE IF EXISTS mailbox_sends;
--bun:split
DROP TABLE IF EXISTS send_tenants;
--bun:split
DROP TABLE IF EXISTS send_policies;
