-- SPDX-License-Identifier: Apache-2.0

-- The accounts' integrations with sending platforms. credential is encrypted. given lists the
-- fields of the credential that were set. began_at is when the last refresh of all tenants began,
-- the zero time before the first.
CREATE TABLE IF NOT EXISTS integrations (
  account_id     {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  id             {{.uuid}} NOT NULL,
  provider       text NOT NULL,
  name           text NOT NULL,
  workspace_id   text NOT NULL,
  workspace_name text NOT NULL,
  credential     {{.bytes}} NOT NULL,
  given          {{.json}} NOT NULL,
  status         text NOT NULL,
  has_error      boolean NOT NULL,
  last_tested_at {{.ts}},
  refreshed_at   {{.ts}},
  began_at       {{.ts}} NOT NULL,
  created_at     {{.ts}} NOT NULL,
  updated_at     {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id)
);
--bun:split
CREATE INDEX IF NOT EXISTS integrations_due ON integrations (began_at);
--bun:split
CREATE TABLE IF NOT EXISTS mailbox_connections (
  account_id       {{.uuid}} NOT NULL,
  id               {{.uuid}} NOT NULL,
  integration_id   {{.uuid}} NOT NULL,
  mailbox_id       {{.uuid}} NOT NULL,
  status           text NOT NULL,
  platform_account text NOT NULL,
  platform_address text NOT NULL,
  platform_name    text NOT NULL,
  has_error        boolean NOT NULL,
  reason           text NOT NULL,
  connected_at     {{.ts}},
  updated_at       {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id),
  UNIQUE (account_id, integration_id, mailbox_id),
  FOREIGN KEY (account_id, integration_id) REFERENCES integrations (account_id, id) ON DELETE CASCADE,
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
--bun:split
-- At most one integration holds a mailbox. This index decides between concurrent writes.
CREATE UNIQUE INDEX IF NOT EXISTS mailbox_connections_held ON mailbox_connections (account_id, mailbox_id)
  WHERE status IN ('pending', 'connected', 'disconnecting', 'other');
--bun:split
-- The deletion of a mailbox deletes its connections, which this index finds.
CREATE INDEX IF NOT EXISTS mailbox_connections_mailbox ON mailbox_connections (account_id, mailbox_id);
--bun:split
-- The link that a person opens is not stored, because anyone who has it can use it.
CREATE TABLE IF NOT EXISTS oauth_sessions (
  account_id       {{.uuid}} NOT NULL,
  id               {{.uuid}} NOT NULL,
  integration_id   {{.uuid}} NOT NULL,
  mailbox_id       {{.uuid}} NOT NULL,
  status           text NOT NULL,
  opened           boolean NOT NULL,
  platform_id      text NOT NULL,
  stamp_before     text NOT NULL,
  platform_account text NOT NULL,
  platform_address text NOT NULL,
  platform_name    text NOT NULL,
  reason           text NOT NULL,
  created_at       {{.ts}} NOT NULL,
  expires_at       {{.ts}} NOT NULL,
  connected_at     {{.ts}},
  looked_at        {{.ts}},
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, integration_id, mailbox_id)
    REFERENCES mailbox_connections (account_id, integration_id, mailbox_id) ON DELETE CASCADE
);
--bun:split
CREATE INDEX IF NOT EXISTS oauth_sessions_connection ON oauth_sessions (account_id, integration_id, mailbox_id);
--bun:split
-- A connection has at most one pending session. This index decides between concurrent inserts.
CREATE UNIQUE INDEX IF NOT EXISTS oauth_sessions_pending ON oauth_sessions (account_id, integration_id, mailbox_id)
  WHERE status = 'pending';
--bun:split
CREATE INDEX IF NOT EXISTS oauth_sessions_over ON oauth_sessions (expires_at) WHERE status = 'pending';
