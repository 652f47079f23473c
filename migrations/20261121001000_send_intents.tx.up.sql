-- SPDX-License-Identifier: Apache-2.0

-- What a run of enforcement is about to have the mail platform do to a mailbox,
-- as long as it is not known whether it happened. sent_count and limit_value are
-- those of the event that it will be.
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
-- Why a mailbox is blocked, beside mailbox_blocks: when that was decided, which
-- comes before its event, and by which limit. It is no part of mailbox_blocks, as
-- a column cannot be added twice on SQLite.
CREATE TABLE IF NOT EXISTS block_grounds (
  account_id  {{.uuid}} NOT NULL,
  mailbox_id  {{.uuid}} NOT NULL,
  limit_value integer NOT NULL,
  decided_at  {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, mailbox_id),
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
