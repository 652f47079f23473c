-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS dns_writes;
--bun:split
DROP TABLE IF EXISTS dns_connections;
