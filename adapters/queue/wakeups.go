// SPDX-License-Identifier: Apache-2.0

package queue

// The constants below are the statements on the table wakeup. Each row is the wake-up of one job.
// If admitted_by is null, the wake-up waits. Otherwise the library River has the wake-up, and
// admitted_by is the id of the River client that admitted it. admission counts how often the row
// was admitted. The end of a handler is recorded only if its wake-up is still admitted and was not
// admitted again. again_at is the time of a wake-up that arrived while River had the job.

const createWakeups = `
CREATE TABLE IF NOT EXISTS wakeup (
	kind text NOT NULL,
	id text NOT NULL,
	fairness_group text NOT NULL,
	account text NOT NULL,
	separate_group boolean NOT NULL,
	trace text NOT NULL,
	due_at timestamptz NOT NULL,
	failures integer NOT NULL DEFAULT 0,
	admission bigint NOT NULL DEFAULT 0,
	admitted_by text,
	admitted_at timestamptz,
	again_at timestamptz,
	PRIMARY KEY (kind, id)
);
CREATE INDEX IF NOT EXISTS wakeup_group ON wakeup (fairness_group, due_at, kind, id) WHERE admitted_by IS NULL;
CREATE INDEX IF NOT EXISTS wakeup_due ON wakeup (due_at) WHERE admitted_by IS NULL;
CREATE INDEX IF NOT EXISTS wakeup_admitted ON wakeup (admitted_by, fairness_group) WHERE admitted_by IS NOT NULL;
CREATE INDEX IF NOT EXISTS wakeup_rescue ON wakeup (admitted_at) WHERE admitted_by IS NOT NULL`

// addWakeups adds wake-ups. If the job has a wake-up that is not admitted, the row keeps the
// earlier of the two due times. If the wake-up is admitted, again_at keeps the earliest due time of
// the wake-ups that arrived since. The statement locks rows in a fixed order, so that concurrent
// executions do not deadlock.
const addWakeups = `
INSERT INTO wakeup (kind, id, fairness_group, account, separate_group, trace, due_at)
SELECT kind, id, fairness_group, account, separate_group, trace, coalesce(due_at, now())
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::text[], $7::timestamptz[])
	AS added (kind, id, fairness_group, account, separate_group, trace, due_at)
ORDER BY kind, id
ON CONFLICT (kind, id) DO UPDATE SET
	trace = CASE WHEN wakeup.admitted_by IS NULL THEN excluded.trace ELSE wakeup.trace END,
	due_at = CASE WHEN wakeup.admitted_by IS NULL THEN excluded.due_at ELSE wakeup.due_at END,
	again_at = CASE WHEN wakeup.admitted_by IS NULL THEN NULL ELSE least(wakeup.again_at, excluded.due_at) END
WHERE CASE WHEN wakeup.admitted_by IS NULL THEN excluded.due_at < wakeup.due_at
	ELSE wakeup.again_at IS NULL OR excluded.due_at < wakeup.again_at END`

// selectRoundWork reads the roundWork of a round. $1 is the id of the River client. $2 is the time
// after which an admitted wake-up is rescued.
const selectRoundWork = `
SELECT
	EXISTS (SELECT FROM wakeup WHERE admitted_by IS NULL AND due_at <= now()),
	coalesce((SELECT min(admitted_at) FROM wakeup WHERE admitted_by IS NOT NULL) < now() - $2::interval, false),
	EXISTS (SELECT FROM wakeup WHERE admitted_by = $1),
	(SELECT extract(epoch FROM min(due_at) - now())::float8 FROM wakeup WHERE admitted_by IS NULL AND due_at > now())`

// admitWakeups admits due wake-ups and returns them. It takes the first wake-up of each fairness
// group, then the second wake-up of each group, and so on. $1 is the id of the River client. $2 is
// the maximum number of handlers of the client. The statement divides $2 by the number of groups
// with work plus one, so that the next group that gets work usually finds a free handler.
//
// The statement steps through the groups by the index wakeup_group, so that its cost depends on the
// number of groups and not on their backlogs.
const admitWakeups = `
WITH RECURSIVE waiting AS (
	(SELECT fairness_group FROM wakeup WHERE admitted_by IS NULL ORDER BY fairness_group LIMIT 1)
	UNION ALL
	SELECT (SELECT wakeup.fairness_group FROM wakeup
		WHERE admitted_by IS NULL AND wakeup.fairness_group > waiting.fairness_group ORDER BY wakeup.fairness_group LIMIT 1)
	FROM waiting WHERE waiting.fairness_group IS NOT NULL
), due AS (
	SELECT fairness_group FROM waiting CROSS JOIN LATERAL (
		SELECT FROM wakeup WHERE admitted_by IS NULL AND wakeup.fairness_group = waiting.fairness_group AND due_at <= now() LIMIT 1
	) AS first
), busy AS (
	SELECT fairness_group, count(*) AS handlers FROM wakeup WHERE admitted_by = $1 GROUP BY fairness_group
), share AS (
	SELECT greatest(1, $2::int / (1 + count(*))) AS size
	FROM (SELECT fairness_group FROM due UNION SELECT fairness_group FROM busy) AS having_work
), picked AS (
	SELECT candidate.kind, candidate.id FROM due CROSS JOIN share LEFT JOIN busy USING (fairness_group)
	CROSS JOIN LATERAL (
		SELECT kind, id, due_at, row_number() OVER (ORDER BY due_at, kind, id) AS number FROM (
			SELECT kind, id, due_at FROM wakeup
			WHERE admitted_by IS NULL AND wakeup.fairness_group = due.fairness_group AND due_at <= now()
			ORDER BY due_at, kind, id LIMIT greatest(0, share.size - coalesce(busy.handlers, 0))
		) AS oldest
	) AS candidate
	ORDER BY candidate.number, candidate.due_at LIMIT greatest(0, $2::int - (SELECT coalesce(sum(handlers), 0) FROM busy))
), locked AS (
	SELECT kind, id FROM wakeup JOIN picked USING (kind, id) WHERE admitted_by IS NULL FOR UPDATE OF wakeup SKIP LOCKED
)
UPDATE wakeup SET admitted_by = $1, admitted_at = now(), admission = admission + 1
FROM locked WHERE wakeup.kind = locked.kind AND wakeup.id = locked.id
RETURNING wakeup.kind, wakeup.id, account, separate_group, trace, due_at, failures, admission`

// endWakeups records handlers that ended, and returns the seconds until the first of their wake-ups
// is due again. $1 to $3 are the kind, id and admission of each wake-up. $4 is the delay of the
// retry in seconds, null after a success. $5 is the number of consecutive failures. A wake-up that
// has nothing left to do gets a due time of infinity. The statement locks rows in the order of
// addWakeups, so that the two do not deadlock.
const endWakeups = `
WITH locked AS (
	SELECT kind, id, delay, ended.failures FROM wakeup
	JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::float8[], $5::int[]) AS ended (kind, id, admission, delay, failures)
		USING (kind, id, admission)
	WHERE admitted_by IS NOT NULL ORDER BY kind, id FOR UPDATE OF wakeup
), again AS (
	UPDATE wakeup SET admitted_by = NULL, admitted_at = NULL, again_at = NULL,
		due_at = coalesce(least(again_at, now() + delay * interval '1 s'), 'infinity'),
		failures = locked.failures
	FROM locked WHERE wakeup.kind = locked.kind AND wakeup.id = locked.id
	RETURNING due_at
)
SELECT extract(epoch FROM min(due_at) - now())::float8 FROM again WHERE due_at < 'infinity'`

// deleteEndedWakeups deletes the wake-ups that have nothing left to do. $1 and $2 are the kinds and
// ids of the wake-ups to check. It runs after endWakeups, which has locked their rows.
const deleteEndedWakeups = `
DELETE FROM wakeup USING unnest($1::text[], $2::text[]) AS ended (kind, id)
WHERE wakeup.kind = ended.kind AND wakeup.id = ended.id AND admitted_by IS NULL AND due_at = 'infinity'`

// rescueWakeups makes admitted wake-ups wait again if they were admitted longer than $1 ago. The
// River job of such a wake-up was lost, or the end of its handler could not be recorded, for
// example because the process died.
const rescueWakeups = `
UPDATE wakeup SET admitted_by = NULL, admitted_at = NULL, due_at = least(due_at, again_at), again_at = NULL
WHERE (kind, id) IN (
	SELECT kind, id FROM wakeup WHERE admitted_by IS NOT NULL AND admitted_at < now() - $1::interval FOR UPDATE SKIP LOCKED
)`

// countWakeups returns, for each kind, the number of waiting wake-ups and the seconds since the
// first of them became due.
const countWakeups = `
SELECT kind, count(*), greatest(0, extract(epoch FROM now() - min(due_at)))::float8
FROM (
	SELECT kind, due_at FROM wakeup WHERE admitted_by IS NULL
	UNION ALL
	SELECT kind, again_at FROM wakeup WHERE again_at IS NOT NULL
) AS waiting GROUP BY kind ORDER BY kind`
