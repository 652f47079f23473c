-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS connect_session_links;
--bun:split
DROP TABLE IF EXISTS connect_sessions;
--bun:split
DROP TABLE IF EXISTS account_settings;
