-- SPDX-License-Identifier: Apache-2.0

-- The send limits of tenants and domains. scope is the name of a domain, or empty for the whole
-- tenant. daily_send_limit is NULL until the mail platform has the rule. domain_id is the zero UUID
-- for the whole tenant. It is not a foreign key: if the domain no longer exists, the policy is not
-- in force, but its row shows that a rule may remain at the platform.
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
-- The state of counting a tenant's messages. place is the IANA name of the time zone that
-- determines the tenant's days. mark is the time up to which the message trace was read and no
-- longer changes. leased_until is as in idempotency_keys. A tenant gets its row when the tenant is
-- first claimed, or when its time zone is set.
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
-- The number of messages that a mailbox sent on a day. settled counts the messages before the
-- tenant's mark, recent those after it.
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
-- The scope whose rule blocks a mailbox. mailboxes.blocked_at is when it was blocked.
CREATE TABLE IF NOT EXISTS mailbox_blocks (
  account_id {{.uuid}} NOT NULL,
  mailbox_id {{.uuid}} NOT NULL,
  scope      text NOT NULL,
  PRIMARY KEY (account_id, mailbox_id),
  FOREIGN KEY (account_id, mailbox_id) REFERENCES mailboxes (account_id, id) ON DELETE CASCADE
);
