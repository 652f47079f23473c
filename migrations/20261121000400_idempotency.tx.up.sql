-- SPDX-License-Identifier: Apache-2.0

-- The Idempotency-Keys of writes. leased_until is in microseconds of Unix time by the database's
-- own clock, 0 for no lease. answer is encrypted, and NULL until the write has an answer.
CREATE TABLE IF NOT EXISTS idempotency_keys (
  account_id   {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  key_hash     {{.bytes}} NOT NULL,
  fingerprint  {{.bytes}} NOT NULL,
  attempt      {{.uuid}} NOT NULL,
  leased_until bigint NOT NULL,
  answer       {{.bytes}},
  created_at   {{.ts}} NOT NULL,
  expires_at   {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, key_hash)
);
--bun:split
CREATE INDEX IF NOT EXISTS idempotency_keys_expiry ON idempotency_keys (expires_at);
