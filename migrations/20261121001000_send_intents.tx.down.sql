-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS block_grounds;
--bun:split
DROP TABLE IF EXISTS send_intents;
