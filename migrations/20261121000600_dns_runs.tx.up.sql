-- SPDX-License-Identifier: Apache-2.0

CREATE TABLE IF NOT EXISTS dns_runs (
  account_id    {{.uuid}} NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
  id            {{.uuid}} NOT NULL,
  total_domains integer NOT NULL,
  created_at    {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id)
);
--bun:split
CREATE INDEX IF NOT EXISTS dns_runs_newest ON dns_runs (account_id, created_at, id);
--bun:split
-- leased_until is as in idempotency_keys. progress is the part of the job's state (see
-- core/provisioning) that the API does not show.
CREATE TABLE IF NOT EXISTS dns_jobs (
  account_id      {{.uuid}} NOT NULL,
  id              {{.uuid}} NOT NULL,
  run_id          {{.uuid}} NOT NULL,
  domain_id       {{.uuid}} NOT NULL,
  tenant_guid     {{.uuid}} NOT NULL,
  domain_name     text NOT NULL,
  stage           text NOT NULL,
  status          text NOT NULL,
  next_step       text NOT NULL,
  provider        text NOT NULL,
  required        text NOT NULL,
  message         text NOT NULL,
  next_attempt_at {{.ts}} NOT NULL,
  epoch           bigint NOT NULL,
  leased_until    bigint NOT NULL,
  trace           text NOT NULL,
  progress        {{.json}} NOT NULL,
  created_at      {{.ts}} NOT NULL,
  started_at      {{.ts}},
  ended_at        {{.ts}},
  updated_at      {{.ts}} NOT NULL,
  PRIMARY KEY (account_id, id),
  FOREIGN KEY (account_id, run_id) REFERENCES dns_runs (account_id, id) ON DELETE CASCADE,
  FOREIGN KEY (account_id, domain_id) REFERENCES domains (account_id, id) ON DELETE CASCADE
);
--bun:split
-- A worker knows the id of a job, but not its account.
CREATE UNIQUE INDEX IF NOT EXISTS dns_jobs_id ON dns_jobs (id);
--bun:split
CREATE INDEX IF NOT EXISTS dns_jobs_run ON dns_jobs (account_id, run_id);
--bun:split
CREATE INDEX IF NOT EXISTS dns_jobs_domain ON dns_jobs (account_id, domain_id);
--bun:split
-- A domain has at most one active job. This index decides between concurrent inserts.
CREATE UNIQUE INDEX IF NOT EXISTS dns_jobs_active ON dns_jobs (account_id, domain_id)
  WHERE status IN ('queued', 'running', 'waiting', 'action_required');
--bun:split
CREATE INDEX IF NOT EXISTS dns_jobs_due ON dns_jobs (next_attempt_at)
  WHERE status IN ('queued', 'running', 'waiting');
