-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS events;
--bun:split
DROP TABLE IF EXISTS event_versions;
--bun:split
DROP TABLE IF EXISTS event_logs;
