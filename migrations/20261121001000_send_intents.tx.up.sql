-- SPDX-License-Identifier: Apache-2.0

-- The change that an enforcement pass is about to make to a mailbox at the mail platform. The row is
-- deleted when it is known whether the change was made. sent_count and limit_value are stored for
-- the event of the change.
CREATE TABLE IF NOT EXISTS send_intents (
  account_id  {{.uuid}} NOT NULL,
  tenant_id   {{.uuid}} NOT NULL,
  mailbox_id  {{.uuid}} NOT NULL,
  scope       text NOT NULL,
  action      text NOT NULL,
  sent_count  integer NOT NULL,
  limit_value integer NOT NULL,
  decided_at  {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, mailbox_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE,
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
--bun:split
CREATE INDEX IF NOT EXISTS send_intents_tenant ON send_intents (account_id, tenant_id);
--bun:split
-- The reason of each block in mailbox_blocks: the limit, and when the block was decided, which is
-- before its event. The columns are not in mailbox_blocks, because SQLite has no statement that
-- adds a column only if it is missing.
CREATE TABLE IF NOT EXISTS block_grounds (
  account_id  {{.uuid}} NOT NULL,
  mailbox_id  {{.uuid}} NOT NULL,
  limit_value integer NOT NULL,
  decided_at  {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, mailbox_id),
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
