-- SPDX-License-Identifier: Apache-2.0

-- The managed rules that an enforcement pass found, but whose scopes the store did not know. They
-- remain from an earlier connection of the tenant, or were created while their policy was being
-- deleted. They may still block mailboxes. rule_name is the name at the mail platform. A row is
-- deleted when its rule blocks no mailbox.
CREATE TABLE IF NOT EXISTS orphan_rules (
  account_id {{.uuid}} NOT NULL,
  tenant_id  {{.uuid}} NOT NULL,
  rule_name  text NOT NULL,
  PRIMARY KEY (account_id, tenant_id, rule_name),
  FOREIGN KEY (account_id, tenant_id) REFERENCES tenants (account_id, id) ON DELETE CASCADE
);
