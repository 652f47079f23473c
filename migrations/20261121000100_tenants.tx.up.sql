-- SPDX-License-Identifier: Apache-2.0

CREATE TABLE IF NOT EXISTS tenants (
  account_id     {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  id             {{.uuid}} NOT NULL,
  guid           {{.uuid}} NOT NULL,
  name           text NOT NULL,
  builtin_domain text NOT NULL,
  default_domain text NOT NULL,
  managed        boolean NOT NULL,
  consent        text NOT NULL,
  consented_at   {{.ts}} NOT NULL,
  connected_by   text NOT NULL,
  bootstrap      text NOT NULL,
  bootstrap_step text NOT NULL,
  smtp_auth      text NOT NULL,
  discovery      text NOT NULL,
  last_sync_at   {{.ts}},
  user_mailboxes integer NOT NULL,
  PRIMARY KEY (account_id, id),
  UNIQUE (account_id, guid)
);
--bun:split
-- A tenant has one holder, over all accounts. If several accounts attach a tenant, the primary key
-- admits one.
CREATE TABLE IF NOT EXISTS tenant_holders (
  guid       {{.uuid}} PRIMARY KEY,
  account_id {{.uuid}} NOT NULL
);
--bun:split
CREATE TABLE IF NOT EXISTS withdrawn (
  account_id   {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  guid         {{.uuid}} NOT NULL,
  withdrawn_at {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, guid)
);
--bun:split
-- stored_at is when the domain was last reserved, or when the discovery that added the row began.
CREATE TABLE IF NOT EXISTS domains (
  account_id        {{.uuid}} NOT NULL,
  id                {{.uuid}} NOT NULL,
  tenant_id         {{.uuid}} NOT NULL,
  name              text NOT NULL,
  added             boolean NOT NULL,
  is_default        boolean NOT NULL,
  verified          boolean NOT NULL,
  dkim              boolean NOT NULL,
  mail_ready        boolean NOT NULL,
  records           {{.json}} NOT NULL,
  mx                text NOT NULL,
  spf               text NOT NULL,
  dmarc             text NOT NULL,
  dkim_status       text NOT NULL,
  verification_seen boolean NOT NULL,
  checked_at        {{.ts}},
  created_at        {{.ts}} NOT NULL,
  stored_at         {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id),
  UNIQUE (account_id, tenant_id, name),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
-- A mailbox belongs to the domain of its address. There is no foreign key to domains: a shared
-- mailbox can be in the built-in domain, which has no row in domains. stored_at is as in domains.
CREATE TABLE IF NOT EXISTS mailboxes (
  account_id       {{.uuid}} NOT NULL,
  id               {{.uuid}} NOT NULL,
  tenant_id        {{.uuid}} NOT NULL,
  address          text NOT NULL,
  domain_name      text NOT NULL,
  stage            text NOT NULL,
  provisioned      boolean NOT NULL,
  object_id        text NOT NULL,
  display_name     text NOT NULL,
  principal_name   text NOT NULL,
  alias            text NOT NULL,
  account_enabled  boolean NOT NULL,
  daily_send_limit integer,
  sends_today      integer NOT NULL,
  sends_today_at   {{.ts}},
  blocked_at       {{.ts}},
  created_at       {{.ts}} NOT NULL,
  stored_at        {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id),
  UNIQUE (account_id, tenant_id, address),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
--bun:split
CREATE INDEX IF NOT EXISTS mailboxes_domain ON mailboxes (account_id, tenant_id, domain_name);
