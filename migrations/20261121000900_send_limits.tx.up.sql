-- SPDX-License-Identifier: Apache-2.0

-- The limits that are enforced. scope is the name of a domain, or empty for the
-- whole tenant. daily_send_limit is missing until the mail platform has the
-- rule. domain_id is the zero UUID for the whole tenant. It is no foreign key:
-- a policy whose domain is gone is not there any more, but its row says that
-- a rule may be left at the platform.
CREATE TABLE IF NOT EXISTS send_policies (
  account_id       {{.uuid}} NOT NULL,
  id               {{.uuid}} NOT NULL,
  tenant_id        {{.uuid}} NOT NULL,
  domain_id        {{.uuid}} NOT NULL,
  scope            text NOT NULL,
  daily_send_limit integer,
  rule_id          text NOT NULL,
  rule_name        text NOT NULL,
  created_at       {{.ts}} NOT NULL,
  updated_at       {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id),
  UNIQUE (account_id, tenant_id, scope),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
-- Where the counting of a tenant stands. place is the IANA name of the time
-- zone that its days follow, mark is up to when its trace was read for good,
-- leased_until is as in idempotency_keys. A tenant gets its row with its first
-- run.
CREATE TABLE IF NOT EXISTS send_tenants (
  account_id   {{.uuid}} NOT NULL,
  tenant_id    {{.uuid}} NOT NULL,
  place        text NOT NULL,
  mark         {{.ts}},
  due_at       {{.ts}} NOT NULL,
  epoch        bigint NOT NULL,
  leased_until bigint NOT NULL,
  PRIMARY KEY (account_id, tenant_id),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
-- What a mailbox sent on a day. settled is what came before the tenant's mark.
CREATE TABLE IF NOT EXISTS mailbox_sends (
  account_id {{.uuid}} NOT NULL,
  mailbox_id {{.uuid}} NOT NULL,
  day_start  {{.ts}} NOT NULL,
  settled    integer NOT NULL,
  recent     integer NOT NULL,
  counted_at {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, mailbox_id, day_start),
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
--bun:split
-- Whose rule blocks a mailbox, beside mailboxes.blocked_at.
CREATE TABLE IF NOT EXISTS mailbox_blocks (
  account_id {{.uuid}} NOT NULL,
  mailbox_id {{.uuid}} NOT NULL,
  scope      text NOT NULL,
  PRIMARY KEY (account_id, mailbox_id),
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
