// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/uptrace/bun"
)

// ownedTables contain rows of accounts. A statement must have a condition on the account for each
// time that it uses such a table. An INSERT must name the column account_id instead. Statements
// that contain a key of statementsOfSeveralAccounts need neither.
var ownedTables = []string{
	"accounts", "members", "api_keys", "tenants", "tenant_holders", "withdrawn", "domains", "mailboxes", "connect_flows",
	"audit_events", "closed_accounts", "idempotency_keys", "dns_connections", "dns_writes", "dns_changes",
	"dns_runs", "dns_jobs", "integrations", "mailbox_connections", "oauth_sessions", "enforcement_events", "enforcement_counts",
	"send_policies", "send_tenants", "tenant_licenses", "recipient_limits", "mailbox_sends", "mailbox_blocks", "send_intents", "block_grounds",
	"orphan_rules",
	"account_settings", "connect_sessions", "connect_session_links", "forgotten_domains", "removed_mailboxes",
	"tenant_observations", "domain_observations", "mailbox_observations", "integration_observations",
	"tenant_readiness", "events", "event_logs", "event_versions",
	"audit_chains", "audit_entries", "audit_acts",
	"webhooks", "webhook_deliveries",
}

// statementsOfSeveralAccounts lists the statements that need no condition on the account. A key is
// a part of the statement, and the value is the reason.
var statementsOfSeveralAccounts = map[string]string{
	`FROM "members" AS "mb" WHERE (email = '')`:                                              "the operator's command asks whether an address is taken",
	`AS c ON c.account_id = a.account_id ORDER BY "a"."created_at"`:                          "the operator's command lists all accounts",
	`INSERT INTO "api_key_uses"`:                                                             "a request names the key, but not its account",
	`INSERT INTO "api_key_bounds"`:                                                           "the bounds belong to a key, which is inserted with them",
	`INSERT INTO api_key_bounds`:                                                             "the bounds are copied from a key that was found with its account",
	`INSERT INTO "api_key_old_secrets"`:                                                      "a secret belongs to a key that was found with its account",
	`ON b.key_id = k.id ORDER BY`:                                                            "the operator's command lists all keys",
	`ON b.key_id = k.id WHERE (k.id = '')`:                                                   "the operator's command names only the key",
	`a.account_id IN (SELECT account_id FROM members WHERE email = '')`:                      "the operator's command finds an account by an address",
	`UPDATE "connect_flows" AS "f" SET step = '' WHERE (state_hash = '')`:                    "a browser sends only the state",
	`FROM "connect_flows" AS "f" WHERE (state_hash = '') AND (browser = '') AND (step = '')`: "a browser sends only the state",
	`WHERE (k.hash = $1)`:                                                                    "the secret of the key identifies the account",
	`WHERE (o.hash = $1)`:                                                                    "the replaced secret identifies the account",
	`WHERE (h.guid = '') AND (t.managed)`:                                                    "the operator's command withdraws a tenant from its account",
	`FROM "audit_events" AS "e" WHERE (e.created_at >= '') ORDER BY`:                         "the operator's command lists the actions on all accounts",
	`DELETE FROM "audit_acts" AS "aa" WHERE ((account_id, write_key)`:                        "the sweep ends lost acts of all accounts",
	`FROM "audit_chains" AS "ac" JOIN audit_entries AS ae`:                                   "the retention reads old entries of all accounts",
	`FROM "dns_connections" AS "dc" ORDER BY "dc"."created_at"`:                              "the operator's command lists all DNS connections",
	`FROM "dns_connections" AS "dc" WHERE (dc.id = '')`:                                      "the operator's command names only the DNS connection",
	`FROM "dns_runs" AS "dr" WHERE (dr.id = '')`:                                             "the operator's command names only the run",
	`WITH "busy" AS (SELECT dj.account_id, count(*) AS jobs`:                                 "the sweep wakes the due jobs of all accounts",
	`UPDATE "dns_jobs" AS "dj" SET epoch = epoch + 1`:                                        "a wake-up contains only the id of the job",
	`SELECT d.account_id, d.id FROM domains AS d WHERE (d.verified AND d.added)`:             "the DNS of all accounts' domains is read again",
	`AS domains FROM domains AS d WHERE (d.verified AND d.added)`:                            "a metric counts the drifted domains of all accounts",
	`AS oldest FROM domains AS d WHERE (d.verified AND d.added)`:                             "a metric counts the verified domains of all accounts",
	`AND (ig.began_at < '') ORDER BY ig.began_at`:                                            "the scheduled refresh asks for integrations of all accounts",
	`FROM "oauth_sessions" AS "os" WHERE (os.status = '') AND`:                               "the sweep ends sessions of all accounts",
	`DELETE FROM "connect_flows" AS "f" WHERE (expires_at < '')`:                             "expired flows of all accounts are swept",
	`DELETE FROM "connect_sessions" AS "cs" WHERE (expires_at < '')`:                         "expired sessions of all accounts are swept",
	`sl.session_id = cs.id WHERE (sl.state_hash = '')`:                                       "a browser sends only the state",
	`DELETE FROM "idempotency_keys" AS "i" WHERE ((account_id, key_hash)`:                    "expired keys of all accounts are swept",
	`WITH "busy" AS (SELECT st.account_id, count(*) AS runs`:                                 "the sweep enforces the limits of all accounts' tenants",
	`AS st ON st.account_id = t.account_id AND st.tenant_id = t.id WHERE (h.`:                "the operator's command names only the tenant",
	`FROM "enforcement_counts" AS "ec" WHERE (ec.tenant_guid = '')`:                          "old days of all accounts' events are dropped",
	`FROM "events" AS "e" WHERE (e.created_at < '')`:                                         "old days of all accounts' logs are dropped",
	`SELECT count(*), count(CASE WHEN (SELECT max(m.sends_today_at)`:                         "a metric counts the lagging tenants of all accounts",
	`count(CASE WHEN NOT (t.consent = '' AND t.bootstrap = '')`:                              "a metric counts the blocked mailboxes of all accounts",
	`AS since FROM tenants AS t LEFT JOIN send_tenants AS st`:                                "a metric shows the longest wait of a tenant of any account",
	`SET leased_until = 0 WHERE (leased_until > 0)`:                                          "at its start, the only process of a database ends the leases of all accounts",
	`FROM webhooks AS w JOIN event_logs AS el ON el.account_id = w.account_id`:               "the fan-out finds accounts with new events",
	`AND (w.failing_since <= '')`:                                                            "failing webhooks of all accounts are disabled",
	`SELECT wd.account_id, wd.webhook_id AS id FROM webhook_deliveries AS wd`:                "the sweep wakes the due deliveries of all accounts",
	`DELETE FROM "webhook_deliveries" AS "wd" WHERE ((account_id, id) IN`:                    "old deliveries of all accounts are dropped",
	`AS disabled, count(CASE WHEN w.status = ''`:                                             "a metric counts the webhooks of all accounts",
	`AS oldest FROM webhook_deliveries AS wd`:                                                "a metric shows the longest wait of a delivery of any account",
}

var (
	tableReference   = regexp.MustCompile(`(?:FROM|JOIN|UPDATE|INTO) "?(\w+)"?`)
	accountCondition = regexp.MustCompile(`(?:\w+\.)?"?account_id"? (?:= |IN \()(?:''|\$1|\w+\.account_id)`)
)

// missingOwnerCondition describes a missing condition of a statement, or returns "".
func missingOwnerCondition(statement string) string {
	owned := 0
	for _, m := range tableReference.FindAllStringSubmatch(statement, -1) {
		if slices.Contains(ownedTables, m[1]) {
			owned++
		}
	}
	if owned == 0 {
		return ""
	}
	if strings.HasPrefix(statement, "INSERT") {
		if !strings.Contains(statement, `"account_id"`) {
			return "an insert without account_id"
		}
		return ""
	}
	if n := len(accountCondition.FindAllString(statement, -1)); n < owned {
		return fmt.Sprintf("%d owned tables, %d conditions on account_id", owned, n)
	}
	return ""
}

// statementSet is a hook that collects statements without their values.
type statementSet struct {
	mu         sync.Mutex
	statements map[string]bool
	// withoutDeadline are statements of the store whose context had no deadline.
	withoutDeadline map[string]bool
}

// seenStatements are the statements that the tests ran on the stores of eachStore.
var seenStatements = statementSet{statements: map[string]bool{}, withoutDeadline: map[string]bool{}}

type withoutStatementCollectionKey struct{}

// withoutStatementCollection returns a context whose statements are not collected, such as the
// statements of migrations.
func withoutStatementCollection(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutStatementCollectionKey{}, true)
}

func (*statementSet) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (s *statementSet) AfterQuery(ctx context.Context, e *bun.QueryEvent) {
	if ctx.Value(withoutStatementCollectionKey{}) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statements[withoutValues(e.Query)] = true
	if _, hasDeadline := ctx.Deadline(); !hasDeadline && !isStatementOfTest() {
		s.withoutDeadline[withoutValues(e.Query)] = true
	}
}

// isStatementOfTest reports whether a test file called bun, not a method of the store. AfterQuery
// calls it.
func isStatementOfTest() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)]) // without isStatementOfTest and AfterQuery
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "adapters/bunstore.") {
			return strings.HasSuffix(frame.File, "_test.go")
		}
		if !more {
			return false
		}
	}
}

// withoutValues returns a statement in which each quoted value is replaced by an empty value. It
// uses no regular expression, because that would take a tenth of the time of all tests of this
// package.
func withoutValues(statement string) string {
	var kept strings.Builder
	parts := strings.Split(statement, "'") // every second part is in quotes
	for i := 0; i < len(parts); i += 2 {
		last := i == len(parts)-1
		switch {
		case last:
			kept.WriteString(parts[i])
		case i == 0 || parts[i] != "": // an empty part comes from a doubled quote in a value
			kept.WriteString(strings.TrimSuffix(parts[i], "X") + "''") // X'…' is a blob
		}
	}
	return kept.String()
}

// TestEveryStatementNamesTheOwner checks seenStatements. It is parallel, so that it runs after the
// tests that are not parallel.
func TestEveryStatementNamesTheOwner(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for statement := range seenStatements.statements {
		if isExempt(statement, used) {
			continue
		}
		if problem := missingOwnerCondition(statement); problem != "" {
			t.Errorf("%s, want a condition on the account: %s", problem, statement)
			continue
		}
		for _, mutant := range withoutOneCondition(statement) {
			if missingOwnerCondition(mutant) == "" {
				t.Errorf("missingOwnerCondition accepts a statement without one of its conditions: %s", mutant)
			}
		}
	}
	if flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" {
		return // only some of the tests ran, so statements are missing
	}
	for part := range statementsOfSeveralAccounts {
		if !used[part] {
			t.Errorf("statementsOfSeveralAccounts has the key %q, but no statement contains it", part)
		}
	}
}

// TestEveryStatementHasADeadline checks that the context of each statement had a deadline, although
// the tests call the store without one. A database that does not answer would otherwise block a
// caller forever.
func TestEveryStatementHasADeadline(t *testing.T) {
	t.Parallel() // see TestEveryStatementNamesTheOwner
	for statement := range seenStatements.withoutDeadline {
		t.Errorf("the context had no deadline, want one for each statement of the store: %s", statement)
	}
}

// isExempt reports whether a statement contains a key of statementsOfSeveralAccounts, and adds the
// key to used.
func isExempt(statement string, used map[string]bool) bool {
	for part := range statementsOfSeveralAccounts {
		if strings.Contains(statement, part) {
			used[part] = true
			return true
		}
	}
	return false
}

// withoutOneCondition returns a mutant of the statement for each condition on the account. The
// mutant lacks this condition.
func withoutOneCondition(statement string) []string {
	if strings.HasPrefix(statement, "INSERT") {
		return []string{strings.Replace(statement, `"account_id"`, `"id"`, 1)}
	}
	var mutants []string
	for _, at := range accountCondition.FindAllStringIndex(statement, -1) {
		mutants = append(mutants, statement[:at[0]]+"1 = 1"+statement[at[1]:])
	}
	return mutants
}
