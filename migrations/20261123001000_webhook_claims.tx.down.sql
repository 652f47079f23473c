-- SPDX-License-Identifier: Apache-2.0

DROP INDEX IF EXISTS webhook_deliveries_claimed;
