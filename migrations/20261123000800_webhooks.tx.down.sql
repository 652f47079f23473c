-- SPDX-License-Identifier: Apache-2.0

DROP TABLE IF EXISTS webhook_deliveries;
--bun:split
DROP TABLE IF EXISTS webhooks;
