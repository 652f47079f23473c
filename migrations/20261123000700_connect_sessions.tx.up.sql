-- SPDX-License-Identifier: Apache-2.0

-- What the connect pages show of an account, and the hosts to which they may link back. The columns
-- are not in accounts, because SQLite has no statement that adds a column only if it is missing.
CREATE TABLE IF NOT EXISTS account_settings (
  account_id   {{.uuid}} PRIMARY KEY REFERENCES accounts (account_id) ON DELETE CASCADE,
  display_name text NOT NULL,
  support_url  text NOT NULL,
  return_hosts text NOT NULL
);
--bun:split
-- A connect session outlives the flows of its links.
CREATE TABLE IF NOT EXISTS connect_sessions (
  account_id   {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  id           {{.uuid}} NOT NULL,
  status       text NOT NULL,
  tenant_guid  text NOT NULL,
  ttl_minutes  integer NOT NULL,
  expires_at   {{.ts}} NOT NULL,
  return_url   text NOT NULL,
  return_state text NOT NULL,
  PRIMARY KEY (account_id, id)
);
--bun:split
CREATE INDEX IF NOT EXISTS connect_sessions_expiry ON connect_sessions (expires_at);
--bun:split
-- Every link of a session, by the hash of its state.
CREATE TABLE IF NOT EXISTS connect_session_links (
  account_id {{.uuid}} NOT NULL,
  state_hash {{.bytes}} NOT NULL,
  session_id {{.uuid}} NOT NULL,
  PRIMARY KEY (account_id, state_hash),
  FOREIGN KEY (account_id, session_id) REFERENCES connect_sessions (account_id, id) ON DELETE CASCADE
);
--bun:split
-- A browser sends only the state, not the account.
CREATE INDEX IF NOT EXISTS connect_session_links_state ON connect_session_links (state_hash);
--bun:split
CREATE INDEX IF NOT EXISTS connect_session_links_session ON connect_session_links (account_id, session_id);
