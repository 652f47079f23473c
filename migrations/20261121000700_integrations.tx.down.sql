-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS oauth_sessions;
--bun:split
DROP TABLE IF EXISTS mailbox_connections;
--bun:split
DROP TABLE IF EXISTS integrations;
