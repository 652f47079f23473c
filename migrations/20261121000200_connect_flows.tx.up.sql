-- SPDX-License-Identifier: Apache-2.0

CREATE TABLE IF NOT EXISTS connect_flows (
  account_id      {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  state_hash      {{.bytes}} NOT NULL,
  step            text NOT NULL,
  expires_at      {{.ts}} NOT NULL,
  browser         {{.bytes}} NOT NULL,
  claimed         text NOT NULL,
  sign_in_hash    {{.bytes}} NOT NULL,
  nonce           text NOT NULL,
  verifier        {{.bytes}},
  admin_tenant    text NOT NULL,
  admin_address   text NOT NULL,
  admin_name      text NOT NULL,
  profile_name    text NOT NULL,
  profile_builtin text NOT NULL,
  profile_default text NOT NULL,
  PRIMARY KEY (account_id, state_hash)
);
--bun:split
-- A browser sends only the state, not the account.
CREATE INDEX IF NOT EXISTS connect_flows_state ON connect_flows (state_hash);
--bun:split
CREATE INDEX IF NOT EXISTS connect_flows_expiry ON connect_flows (expires_at);
