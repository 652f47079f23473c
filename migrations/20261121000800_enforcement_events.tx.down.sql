-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS enforcement_counts;
--bun:split
DROP TABLE IF EXISTS enforcement_events;
