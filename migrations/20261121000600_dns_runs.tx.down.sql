-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS dns_jobs;
--bun:split
DROP TABLE IF EXISTS dns_runs;
