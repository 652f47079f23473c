-- SPDX-License-Identifier: Apache-2.0

-- This index finds the claimed deliveries of a webhook, however many deliveries are pending.
CREATE INDEX IF NOT EXISTS webhook_deliveries_claimed ON webhook_deliveries (account_id, webhook_id) WHERE leased_until > 0;
