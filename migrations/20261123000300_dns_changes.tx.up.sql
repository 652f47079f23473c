-- SPDX-License-Identifier: Apache-2.0

-- The requests of runs that change zones. A row is stored as intended before its request is sent,
-- and its values are not managed yet. When it is known that the request was executed, the row
-- becomes made, and its values are added to dns_writes. An undo sets the row to undone. changes and
-- written contain values as base64, because values need not be UTF-8.
CREATE TABLE IF NOT EXISTS dns_changes (
  account_id  {{.uuid}} NOT NULL,
  id          {{.uuid}} NOT NULL,
  domain_id   {{.uuid}} NOT NULL,
  run_id      {{.uuid}} NOT NULL,
  zone        text NOT NULL,
  state       text NOT NULL,
  changes     {{.json}} NOT NULL,
  written     {{.json}} NOT NULL,
  intended_at {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, domain_id) REFERENCES domains (account_id, id) ON DELETE CASCADE
);
--bun:split
CREATE INDEX IF NOT EXISTS dns_changes_domain ON dns_changes (account_id, domain_id);
--bun:split
CREATE INDEX IF NOT EXISTS dns_changes_run ON dns_changes (account_id, run_id);
