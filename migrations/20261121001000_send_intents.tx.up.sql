-- SPDX-License-Identifier: Apache-2.0

-- What a run of enforcement is about to have the mail platform do to a mailbox,
-- as long as it is not known whether it happened. event_id, sent_count,
-- limit_value and created_at are those of the event that it will be.
CREATE TABLE IF NOT EXISTS send_intents (
  account_id  {{.uuid}} NOT NULL,
  tenant_id   {{.uuid}} NOT NULL,
  mailbox_id  {{.uuid}} NOT NULL,
  scope       text NOT NULL,
  action      text NOT NULL,
  event_id    {{.uuid}} NOT NULL,
  sent_count  integer NOT NULL,
  limit_value integer NOT NULL,
  created_at  {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, mailbox_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE,
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
--bun:split
CREATE INDEX IF NOT EXISTS send_intents_tenant ON send_intents (account_id, tenant_id);
