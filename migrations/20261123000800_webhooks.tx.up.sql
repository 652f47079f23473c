-- SPDX-License-Identifier: Apache-2.0

-- Endpoints that receive events. The secrets are encrypted. An empty list of types or tenants
-- selects all. position is the sequence number up to which the events of the account's log have
-- been fanned out to the endpoint, or skipped because the endpoint did not exist or was disabled.
CREATE TABLE IF NOT EXISTS webhooks (
  account_id      {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  id              {{.uuid}} NOT NULL,
  url             text NOT NULL,
  types           {{.json}} NOT NULL,
  tenants         {{.json}} NOT NULL,
  description     text NOT NULL,
  status          text NOT NULL,
  secret          {{.bytes}} NOT NULL,
  previous_secret {{.bytes}},
  previous_until  {{.ts}},
  position        bigint NOT NULL,
  failing_since   {{.ts}},
  created_at      {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id)
);
--bun:split
-- Each row is the delivery of one event to one endpoint. sequence is 0 for a test delivery, whose
-- event is in no log.
CREATE TABLE IF NOT EXISTS webhook_deliveries (
  account_id      {{.uuid}} NOT NULL,
  id              {{.uuid}} NOT NULL,
  webhook_id      {{.uuid}} NOT NULL,
  event_id        {{.uuid}} NOT NULL,
  event_type      text NOT NULL,
  sequence        bigint NOT NULL,
  status          text NOT NULL,
  tries           integer NOT NULL,
  attempts        {{.json}} NOT NULL,
  next_attempt_at {{.ts}} NOT NULL,
  epoch           bigint NOT NULL,
  leased_until    bigint NOT NULL,
  created_at      {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, webhook_id) REFERENCES webhooks (account_id, id) ON DELETE CASCADE
);
--bun:split
CREATE INDEX IF NOT EXISTS webhook_deliveries_listed ON webhook_deliveries (account_id, webhook_id, id);
--bun:split
CREATE INDEX IF NOT EXISTS webhook_deliveries_pending ON webhook_deliveries (account_id, webhook_id, next_attempt_at) WHERE status = 'pending';
--bun:split
CREATE INDEX IF NOT EXISTS webhook_deliveries_due ON webhook_deliveries (next_attempt_at) WHERE status = 'pending';
--bun:split
CREATE INDEX IF NOT EXISTS webhook_deliveries_created ON webhook_deliveries (created_at);
